import re
from pathlib import Path

STEPS = {
    r"Given (\d+) apples": lambda state, count: state.update(left=int(count)),
    r"When I eat (\d+)": lambda state, count: state.update(left=state["left"] - int(count)),
    r"Then (\d+) are left": lambda state, count: check(state["left"], int(count)),
}


def check(actual, expected):
    assert actual == expected


def scenario(lines):
    def test():
        state = {}
        for line in lines:
            for pattern, step in STEPS.items():
                if found := re.fullmatch(pattern, line):
                    step(state, *found.groups())

    return test


title, *lines = map(str.strip, Path(__file__).with_name("shop.feature").read_text().split("\n")[:4])
globals()["test_" + title.split()[-1]] = scenario(lines)
