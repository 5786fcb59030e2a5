"""An agent's marker in the output of a failing test: one more reason, and not the verdict."""


def test_an_agent_repairs_the_tax() -> None:
    """Give up as an agent does, with a marker on a line of its own."""
    print("tried three ways of rounding")
    print("[GZA_FAILURE:MAX_TURNS]")
    raise AssertionError("the tax of 2.50 is still 12 cents")
