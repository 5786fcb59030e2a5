import json
from pathlib import Path

from invoice import invoice


def test_invoice():
    expected = json.loads(Path(__file__).with_name("expected.json").read_text())
    assert invoice([(3, 2), (3, 1)]) == expected
