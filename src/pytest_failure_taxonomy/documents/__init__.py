"""Read files that people write, and report every problem of a file with its line."""
