"""Logs of runs that no plugin saw: read them, find markers, and make evidence for the judge."""
