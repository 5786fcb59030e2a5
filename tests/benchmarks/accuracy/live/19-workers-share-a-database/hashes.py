import sqlite3


class HashCache:
    def __init__(self, path):
        self.connection = sqlite3.connect(path, timeout=30)
        self.connection.execute("CREATE TABLE hashesV3 (path TEXT, hash TEXT)")
        self.connection.commit()

    def put(self, path, hash):
        self.connection.execute("INSERT INTO hashesV3 VALUES (?, ?)", (path, hash))
        self.connection.commit()

    def get(self, path):
        rows = self.connection.execute(
            "SELECT hash FROM hashesV3 WHERE path = ?", (path,)
        )
        return rows.fetchone()[0]
