"""One pytest run, from its options to its report."""
