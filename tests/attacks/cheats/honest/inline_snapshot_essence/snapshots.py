class Missing:
    def __eq__(self, other):
        return True


def snapshot(value=Missing()):
    return value
