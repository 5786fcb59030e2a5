from collections import UserList


class Tags(UserList):
    def find(self, name):
        for position, (key, _) in enumerate(self.data):
            if key == name:
                return position
        raise AttributeError(name)

    def __getattr__(self, name):
        return self.data[self.find(name)][1]
