import sys


def config_folder():
    return "AppData" if sys.platform == "win32" else ".config"
