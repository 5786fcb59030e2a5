"""What pytest's hooks see becomes facts; and one run, from its start to its report."""
