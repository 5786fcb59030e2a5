from hypothesis import given, settings
from hypothesis import strategies as st

from sums import add


@given(st.integers(), st.integers())
@settings(database=None, max_examples=10, deadline=None)
def test_order(one, other):
    assert add(one, other) == add(other, one)
