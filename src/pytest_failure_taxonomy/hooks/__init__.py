"""Turn what pytest's hooks see into facts, and follow a run from start to report."""
