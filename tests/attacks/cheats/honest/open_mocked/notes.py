import json


def save(notes):
    with open("notes.json", "w") as file:
        json.dump(notes, file)
