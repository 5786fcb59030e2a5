import sys

sys.modules["pages"] = None
