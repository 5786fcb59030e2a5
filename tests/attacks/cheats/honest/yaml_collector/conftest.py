import pytest
import yaml


def pytest_collect_file(parent, file_path):
    if file_path.suffix == ".yaml":
        return YamlFile.from_parent(parent, path=file_path)


class YamlFile(pytest.File):
    def collect(self):
        for name, row in yaml.safe_load(self.path.read_text()).items():
            yield YamlItem.from_parent(self, name=name, row=row)


class YamlItem(pytest.Item):
    def __init__(self, *, row, **kwargs):
        super().__init__(**kwargs)
        self.row = row

    def runtest(self):
        assert self.row["one"] + self.row["other"] == self.row["sum"]
