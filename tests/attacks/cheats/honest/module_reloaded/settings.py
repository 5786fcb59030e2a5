import os

MODE = os.environ.get("MODE", "plain")
