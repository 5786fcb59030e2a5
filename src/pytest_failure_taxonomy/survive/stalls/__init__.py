"""Stalls of a run: found, looked at closely, and told."""
