"""A user's file of rules: read, and matched under a time limit that no pattern can pass."""
