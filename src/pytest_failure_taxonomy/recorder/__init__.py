"""What happens in a run, recorded as evidence by pytest's hooks."""
