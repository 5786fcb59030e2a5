collect_ignore = ["test_median.py"]
