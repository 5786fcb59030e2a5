def pytest_terminal_summary(terminalreporter, exitstatus):
    terminalreporter.section("links")
    terminalreporter.write_line(f"build: https://ci.example.org/1 ({exitstatus})")
