from pathlib import PureWindowsPath

CACHE = PureWindowsPath(r"C:\Users\runneradmin\AppData\Local\wasm")


class BinaryMissingError(Exception):
    pass


def ensure_binary(path: PureWindowsPath) -> None:
    raise BinaryMissingError(f"there is no binary at {path}")
