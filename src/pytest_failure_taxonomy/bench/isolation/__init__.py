"""Rubrics and systems under test in processes of their own, which can be killed.

Two programs live here. `client` is asked for a verdict, starts processes and waits for them.
`server` is the program of such a process: a fresh interpreter that knows the standard library and
the modules `entry`, `serving`, `running`, `child`, `capture`, `limits`, `loading`, `sweeping` and
`wire` of this folder, which it loads under a private name, so that they never meet a rubric's own.
"""
