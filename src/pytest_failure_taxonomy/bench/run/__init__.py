"""Run the cases of a task class."""
