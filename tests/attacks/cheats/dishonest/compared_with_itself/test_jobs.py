import comparing
from jobs import Jobs


def test_order():
    jobs = Jobs()
    for job in ("wash", "dry"):
        jobs.put(job)
    comparing.assert_taken(jobs, ["wash", "dry"])
