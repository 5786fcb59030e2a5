"""Read what others wrote of a run, as evidence: files of other programs, and logs."""
