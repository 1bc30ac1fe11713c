"""Small mistakes in Python source, one at a time: which places can be changed, and the text after the change.

Docstrings, annotations, raised exceptions, assertions, f-strings and ``__all__`` are left alone.
"""

from __future__ import annotations

import ast
import copy
import random
from collections.abc import Iterator
from dataclasses import dataclass

ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}
COMPARISON: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
EXACT_OPPOSITES = (ast.Eq, ast.NotEq, ast.Is, ast.IsNot, ast.In, ast.NotIn)
UNTOUCHED = (ast.Raise, ast.Assert, ast.JoinedStr, ast.Import, ast.ImportFrom)
NOT_BEHAVIOUR = ("annotation", "returns", "decorator_list", "bases", "msg")


@dataclass(frozen=True)
class Mutant:
    """One change of one file: where it begins, what stood there, and what stands there instead."""

    file: str
    line: int
    column: int
    operator: str
    before: str
    after: str
    end_line: int
    end_column: int

    @property
    def key(self) -> tuple[str, ...]:
        """What tells this mutant from all others."""
        return (self.file, str(self.line), str(self.column), self.operator, self.after)

    def apply(self, source: str) -> str:
        """The source with the change.

        Examples
        --------
        >>> [m.apply("a = b + 2") for m in mutants("a.py", "a = b + 2")]
        ['a = (b - 2)', 'a = b + 3']
        """
        lines = source.encode().splitlines(keepends=True)
        first, last = self.line - 1, self.end_line - 1
        head = b"".join(lines[:first]) + lines[first][: self.column]
        tail = lines[last][self.end_column :] + b"".join(lines[last + 1 :])
        return (head + self.after.encode() + tail).decode()


def mutants(file: str, source: str) -> list[Mutant]:
    """All mutants of a file, in the order of its lines."""
    return list(_changes(file, ast.parse(source), in_function=False))


def sample(of_files: dict[str, list[Mutant]], count: int, seed: int) -> list[Mutant]:
    """``count`` mutants, spread over the files in proportion to what each holds.

    The first of a longer sample are the shorter sample, so that a run can be stopped at any time or made longer.
    """
    drawn = []
    for file, found in of_files.items():
        rng = random.Random(f"{seed} {file}")
        start = rng.random()
        shuffled = rng.sample(found, len(found))
        drawn += [((i + start) / len(found), m) for i, m in enumerate(shuffled)]
    return [m for _, m in sorted(drawn, key=lambda pair: (pair[0], pair[1].key))][:count]


def _changes(file: str, node: ast.AST, *, in_function: bool) -> Iterator[Mutant]:
    if isinstance(node, UNTOUCHED) or _is_listing(node):
        return
    in_function = in_function or isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
    for operator, place, changed in _operators(node, in_function):
        text = changed if isinstance(changed, str) else ast.unparse(changed)
        if isinstance(place, ast.expr) and not isinstance(place, ast.Constant):
            text = f"({text})"
        assert place.end_lineno is not None and place.end_col_offset is not None  # ast.parse gives them
        yield Mutant(
            file,
            place.lineno,
            place.col_offset,
            operator,
            ast.unparse(place),
            text,
            place.end_lineno,
            place.end_col_offset,
        )
    for name, value in ast.iter_fields(node):
        if name in NOT_BEHAVIOUR:
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _changes(file, child, in_function=in_function)


def _is_listing(node: ast.AST) -> bool:
    """Whether a node says what a module offers, what only type checkers read, or where a warning points."""
    if isinstance(node, ast.Assign):
        return any(isinstance(t, ast.Name) and t.id == "__all__" for t in node.targets)
    if isinstance(node, ast.If):
        return isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
    return isinstance(node, ast.keyword) and node.arg == "stacklevel"


def _operators(node: ast.AST, in_function: bool) -> Iterator[tuple[str, ast.expr | ast.stmt, ast.AST | str]]:
    """Name of the operator, the node it replaces, and the replacement."""
    if isinstance(node, ast.BinOp) and type(node.op) in ARITHMETIC and not _is_text(node):
        if in_function or not isinstance(node.op, ast.BitOr):  # outside: an alias of types
            yield "arithmetic", node, _with(node, op=ARITHMETIC[type(node.op)]())
    elif isinstance(node, ast.Compare):
        for i, op in enumerate(node.ops):
            swapped = COMPARISON[type(op)]()
            yield "comparison", node, _with(node, ops=[*node.ops[:i], swapped, *node.ops[i + 1 :]])
    elif isinstance(node, ast.BoolOp):
        yield "and/or", node, _with(node, op=ast.Or() if isinstance(node.op, ast.And) else ast.And())
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.Not, ast.USub)):
        yield "not removed" if isinstance(node.op, ast.Not) else "minus removed", node, node.operand
    elif isinstance(node, ast.Constant) and type(node.value) in (int, float):
        value = node.value
        yield "constant", node, repr(value + 1 if isinstance(value, int) or not value else 2 * value)
    elif isinstance(node, ast.AugAssign):
        if type(node.op) in ARITHMETIC:
            yield "augmented", node, _with(node, op=ARITHMETIC[type(node.op)]())
        yield "deleted", node, "pass"
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        yield "deleted", node, "pass"
    tests = [node.test] if isinstance(node, (ast.If, ast.IfExp)) else getattr(node, "ifs", [])
    for test in tests:
        if not _has_opposite(test):
            yield "negated if", test, ast.UnaryOp(ast.Not(), test)


def _has_opposite(test: ast.expr) -> bool:
    """Whether another operator already turns the condition around."""
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        return isinstance(test.ops[0], EXACT_OPPOSITES)
    return isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)


def _is_text(node: ast.BinOp) -> bool:
    sides = (node.left, node.right)
    return any(
        isinstance(s, ast.JoinedStr) or (isinstance(s, ast.Constant) and isinstance(s.value, str)) for s in sides
    )


def _with(node: ast.AST, **changes: object) -> ast.AST:
    changed = copy.copy(node)
    for name, value in changes.items():
        setattr(changed, name, value)
    return changed
