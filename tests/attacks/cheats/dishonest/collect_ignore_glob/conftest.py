collect_ignore_glob = ["*[d]urations.py"]
