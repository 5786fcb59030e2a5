"""Experiments that prove what a failure comes from."""
