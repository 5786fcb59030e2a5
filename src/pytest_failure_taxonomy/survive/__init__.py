"""What outlives pytest: the record on disk, the watcher, a report's completion.

Nothing here imports pytest but what runs in it, so that another process can read what a
dead one has left.
"""
