"""Rubrics and systems under test in processes of their own, which can be killed.

There are two programs. The client (`client`, `connection`) runs in pytest's process: it
starts processes, asks for verdicts, and waits. `server` is the program of such a process: a fresh
interpreter that imports only the standard library and `serving`, `child`, `processes` and `wire`.
"""
