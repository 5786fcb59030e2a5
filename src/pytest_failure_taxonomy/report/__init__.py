"""From evidence and verdict to the artifact: build, schema, atomic write and rendering."""
