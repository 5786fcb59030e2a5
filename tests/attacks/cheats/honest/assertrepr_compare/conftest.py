from money import Money


def pytest_assertrepr_compare(op, left, right):
    if isinstance(left, Money) and op == "==":
        return ["amounts differ:", f"   {left.cents} and {right.cents} cents"]
