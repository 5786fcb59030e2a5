from unittest import mock

import notes


def test_save():
    with mock.patch("builtins.open", mock.mock_open()) as opened, mock.patch("json.dump") as dump:
        notes.save(["milk"])
    opened.assert_called_once_with("notes.json", "w")
    dump.assert_called_once_with(["milk"], opened())
