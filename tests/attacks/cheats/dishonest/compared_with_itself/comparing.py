def assert_taken(jobs, expected):
    assert [jobs.take() for _ in expected] == expected
