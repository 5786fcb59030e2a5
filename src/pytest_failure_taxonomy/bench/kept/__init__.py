"""The runs of task classes that are kept on disk."""
