"""What outlives pytest: a run's record on disk, the watcher, and the completion of a report.

Nothing here imports pytest but what runs in it, so that another process can read what a dead one
has left.
"""
