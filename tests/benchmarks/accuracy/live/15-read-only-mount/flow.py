import pickle


def write(path, records):
    with open(path, "wb") as stream:
        for record in records:
            pickle.dump(record, stream)


def read(path):
    with open(path, "rb") as stream:
        try:
            while True:
                yield pickle.load(stream)
        except EOFError:
            return
