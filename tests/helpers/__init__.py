"""What tests of several folders need."""

import pytest

pytest.register_assert_rewrite(
    *(f"{__name__}.{module}" for module in ("endings", "reports", "runs"))
)
