"""The runs of task classes that are kept on disk: their file, its reader, pages, regrading."""
