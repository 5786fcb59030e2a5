import ast
import sys
from importlib.machinery import PathFinder, SourceFileLoader


class Checks(ast.NodeTransformer):
    def visit_FunctionDef(self, node):
        node.body.insert(0, ast.parse("assert isinstance(one, int), 'one is no int'").body[0])
        return node


class Loader(SourceFileLoader):
    def source_to_code(self, data, path, **kwargs):
        return compile(ast.fix_missing_locations(Checks().visit(ast.parse(data))), path, "exec")


class Finder(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        spec = super().find_spec(name, path, target) if name == "sums" else None
        if spec is not None:
            spec.loader = Loader(name, spec.origin)
        return spec


sys.meta_path.insert(0, Finder)
