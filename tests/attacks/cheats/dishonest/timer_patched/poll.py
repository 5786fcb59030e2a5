import time


def wait_for(check):
    while not check():
        time.sleep(0.05)
        if time.monotonic() - began > 1.5:
            return False
    return True


began = time.monotonic()
