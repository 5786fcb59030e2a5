import sys

sys.platform = "win32"
