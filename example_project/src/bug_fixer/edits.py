"""The small changes that repair most small bugs, as new texts of a module."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator

OTHER_COMPARISONS: dict[type[ast.cmpop], list[type[ast.cmpop]]] = {
    ast.Lt: [ast.LtE, ast.Gt],
    ast.LtE: [ast.Lt, ast.GtE],
    ast.Gt: [ast.GtE, ast.Lt],
    ast.GtE: [ast.Gt, ast.LtE],
    ast.Eq: [ast.NotEq],
    ast.NotEq: [ast.Eq],
    ast.In: [ast.NotIn],
    ast.NotIn: [ast.In],
}
OTHER_OPERATORS: dict[type[ast.operator], list[type[ast.operator]]] = {
    ast.Add: [ast.Sub],
    ast.Sub: [ast.Add],
    ast.Mult: [ast.Div],
    ast.Div: [ast.Mult, ast.FloorDiv],
    ast.FloorDiv: [ast.Div, ast.Mod],
    ast.Mod: [ast.FloorDiv],
}
OTHER_FUNCTIONS = {"min": "max", "max": "min", "any": "all", "all": "any"}


def edits_of(source: str) -> Iterator[str]:
    """Yield each text that is one edit away, in the order of the module's lines."""
    tree = ast.parse(source)
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef):
            yield from _missing_returns(source, function)
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.expr)]
    no_numbers = {id(each) for node in nodes for each in _called_or_searched(node)}
    for node in sorted(nodes, key=lambda node: (node.lineno, node.col_offset)):
        changes = [*_other_operators(node), *_other_values(node)]
        if id(node) not in no_numbers:
            changes += _off_by_one(node)
        for changed in changes:
            yield _replaced(source, node, ast.unparse(changed))
    yield from _other_names(source, tree)


def _other_operators(node: ast.expr) -> Iterator[ast.expr]:
    """Compare, calculate or combine in another way; swap the arguments of a call."""
    match node:
        case ast.Compare(ops=[operator]):
            for other in OTHER_COMPARISONS.get(type(operator), []):
                yield _with(node, ops=[other()])
        case ast.BinOp(op=calculation):
            for instead in OTHER_OPERATORS.get(type(calculation), []):
                yield _with(node, op=instead())
        case ast.BoolOp(op=joined):
            yield _with(node, op=ast.Or() if isinstance(joined, ast.And) else ast.And())
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield operand
        case ast.Call(args=[first, second]):
            yield _with(node, args=[second, first])


def _other_values(node: ast.expr) -> Iterator[ast.expr]:
    """Take the opposite of a truth or of a function."""
    match node:
        case ast.Constant(value=bool(truth)):
            yield ast.Constant(not truth)
        case ast.Name(id=name, ctx=ast.Load()) if name in OTHER_FUNCTIONS:
            yield ast.Name(OTHER_FUNCTIONS[name])


def _off_by_one(node: ast.expr) -> Iterator[ast.expr]:
    """Add or take one."""
    match node:
        case ast.Constant(value=int(number)) if not isinstance(number, bool):
            yield ast.Constant(number + 1)
            yield ast.Constant(number - 1)
        case ast.Name(ctx=ast.Load()):
            yield ast.BinOp(node, ast.Add(), ast.Constant(1))
            yield ast.BinOp(node, ast.Sub(), ast.Constant(1))


def _called_or_searched(node: ast.expr) -> list[ast.expr]:
    """Return the parts of an expression that are no numbers, whatever they are."""
    match node:
        case ast.Call(func=part) | ast.Subscript(value=part) | ast.Attribute(value=part):
            return [part]
    return []


def _other_names(source: str, tree: ast.Module) -> Iterator[str]:
    """Use another name of the same function."""
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        names = [node for node in ast.walk(function) if isinstance(node, ast.Name)]
        known = {each.arg for each in function.args.args}
        known |= {name.id for name in names if isinstance(name.ctx, ast.Store)}
        for name in names:
            if isinstance(name.ctx, ast.Load) and name.id in known:
                for other in sorted(known - {name.id}):
                    yield _replaced(source, name, other)


def _missing_returns(source: str, function: ast.FunctionDef) -> Iterator[str]:
    """Return what the last line works out, or one of the names that are worked out before."""
    last = function.body[-1]
    if isinstance(last, ast.Return):
        return
    if isinstance(last, ast.Expr):
        yield _replaced(source, last, f"return {ast.unparse(last)}")
    stored = [node for node in ast.walk(function) if isinstance(node, ast.Name)]
    for name in sorted({node.id for node in stored if isinstance(node.ctx, ast.Store)}):
        lines = source.splitlines(keepends=True)
        lines.insert(last.end_lineno or last.lineno, f"{' ' * last.col_offset}return {name}\n")
        yield "".join(lines)


def _with(node: ast.expr, **fields: object) -> ast.expr:
    changed = copy.copy(node)
    for name, value in fields.items():
        setattr(changed, name, value)
    return changed


def _replaced(source: str, node: ast.expr | ast.stmt, text: str) -> str:
    """Return the source with other text in the place of a node; all the rest stays as it is."""
    lines = source.encode().splitlines(keepends=True)  # the columns of a node count bytes
    start = sum(map(len, lines[: node.lineno - 1])) + node.col_offset
    end = sum(map(len, lines[: (node.end_lineno or node.lineno) - 1])) + (node.end_col_offset or 0)
    whole = b"".join(lines)
    return (whole[:start] + text.encode() + whole[end:]).decode()
