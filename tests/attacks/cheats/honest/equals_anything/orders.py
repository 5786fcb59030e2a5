import datetime
import uuid


def order(name):
    return {"id": uuid.uuid4(), "name": name, "at": datetime.datetime.now()}
