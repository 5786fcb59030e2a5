"""Read a task class from its folder."""
