"""What the operating system gives: files of our own, streams, processes."""
