failures = []


class check:
    def __enter__(self):
        return self

    def __exit__(self, kind, error, traceback):
        if kind is not None and issubclass(kind, AssertionError):
            failures.append(str(error))
            return True
