"""What a run leaves on disk while it runs, so that its report can be written after its death.

Nothing in this package imports pytest: the process that completes the report of a dead run is
another one.
"""
