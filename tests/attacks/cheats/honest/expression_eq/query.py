class Column:
    def __init__(self, name):
        self.name = name

    def __eq__(self, value):
        return Condition(f"{self.name} = {value!r}")


class Condition:
    def __init__(self, text):
        self.text = text
