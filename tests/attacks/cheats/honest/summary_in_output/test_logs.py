from logs import failures

LAST = "==== 2 failed, 3 passed in 0.10s ===="


def test_failures():
    print("==== why this run failed ====")
    print(LAST)
    print("==== 5 passed in 0.10s ====")
    assert failures(LAST) == 2
