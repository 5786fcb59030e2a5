def failures(text):
    return int(text.rpartition(" failed")[0].split()[-1])
