import subprocess
import sys


def test_command(tmp_path):
    (tmp_path / "test_it.py").write_text("def test_it(): assert 0")
    words = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", str(tmp_path)]
    assert subprocess.run(words, stdout=subprocess.DEVNULL).returncode == 1
