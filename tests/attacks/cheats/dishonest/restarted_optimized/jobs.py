class Jobs:
    def __init__(self):
        self.waiting = []

    def put(self, job):
        self.waiting.append(job)

    def take(self):
        return self.waiting.pop()
