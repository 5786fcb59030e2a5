from pathlib import Path


def pytest_make_parametrize_id(val, argname):
    return f"{argname}={val}"


def pytest_generate_tests(metafunc):
    if "square" in metafunc.fixturenames:
        text = Path(__file__).with_name("rows.txt").read_text()
        rows = [tuple(map(int, line.split())) for line in text.splitlines()]
        metafunc.parametrize("number, square", rows)
