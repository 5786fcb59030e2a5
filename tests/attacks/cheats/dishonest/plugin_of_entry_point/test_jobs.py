from jobs import Jobs


def test_one():
    jobs = Jobs()
    jobs.put("wash")
    assert jobs.take() == "wash"


def test_order():
    jobs = Jobs()
    jobs.put("wash")
    jobs.put("dry")
    assert jobs.take() == "wash"
