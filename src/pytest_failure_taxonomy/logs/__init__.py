"""Read the logs of runs without the plugin: find markers, and turn output into evidence."""
