from reader import count_in_processes


def test_concurrency():
    assert sorted(count_in_processes(["1.1.1.1", "2.125.160.216"])) == [7, 13]


def test_one_process():
    assert count_in_processes(["::1"], processes=1) == [3]
