import time


def make_report(rows):
    for _ in rows:
        time.sleep(0.1)
    return len(rows)
