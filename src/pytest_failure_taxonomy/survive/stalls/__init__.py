"""Detect, inspect and report the stalls of a run."""
