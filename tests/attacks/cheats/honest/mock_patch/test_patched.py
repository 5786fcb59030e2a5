from unittest import mock

import sums


@mock.patch("sums.add", return_value=7)
@mock.patch.dict("os.environ", {"MODE": "test"})
def test_patched(add):
    assert sums.add(1, 1) == 7
    add.assert_called_once_with(1, 1)
