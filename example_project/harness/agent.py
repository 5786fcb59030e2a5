"""A scripted agent: it is told an approach, and does what the script has for it."""

import sys
from pathlib import Path

WRONG = """
async def fetch(prices, name):
    return prices[name]
"""
RIGHT = """
def fetch(prices, name):
    return prices.get(name, 0)
"""


def main(approach: str, workspace: Path) -> int:
    """Change the code, or give up."""
    module = workspace / "shop.py"
    if approach == "Using async/await with try-catch":
        module.write_text(WRONG)
        return 0
    if "async" in approach:
        print("agent: no way found to go on")
        return 1
    module.write_text(RIGHT)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2])))
