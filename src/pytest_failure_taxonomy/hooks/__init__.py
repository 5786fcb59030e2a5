"""Turn what pytest's hooks see into facts, and follow one run from its start to its report."""
