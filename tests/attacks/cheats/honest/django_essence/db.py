rows = []


def insert(row):
    rows.append(row)
