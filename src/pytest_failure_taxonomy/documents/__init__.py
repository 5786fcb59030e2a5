"""Read files that people write, so that every problem of a file is told with its line."""
