"""What outlives pytest: the watcher, the supervisor, and the completion of reports."""
