"""Rules that users write: reading them, and asking them what a failure means."""
