import sys

collect_ignore = []
if sys.version_info[0] > 2:
    collect_ignore.append("test_py2.py")
