import os


def hello():
    return f"Hello {input('name: ')} at {os.environ['HOST']}"
