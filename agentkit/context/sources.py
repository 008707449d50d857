"""Finds the line of source code that supplied a piece of text. Never fails: it is for messages.

Files are read and parsed only when somebody asks. Where the text itself is not in the source, since
it was computed, the line of the assignment, the docstring or the function is given.
"""

from __future__ import annotations

import ast
import inspect
import linecache
import os
from collections.abc import Callable, Iterator
from functools import lru_cache

_LINES_OF_A_CALL = 60


def line_of_function(function: Callable[..., object], text: str = "") -> str | None:
    """Return where a function is defined, or the line in it that has `text`."""
    try:
        code = inspect.unwrap(function).__code__
        lines = linecache.getlines(code.co_filename)
        last = max((line for *_, line in code.co_lines() if line is not None), default=0)
    except Exception:
        return None
    return _place(code.co_filename, _line_with(lines, text, code.co_firstlineno, last))


def line_of_attribute(cls: type[object], name: str, text: str = "") -> str | None:
    """Return where a class (or the nearest base that has it) sets an attribute.

    With `name` `__doc__`, where its docstring begins; with `text`, the line that has it.
    """
    for owner in cls.__mro__:
        if vars(owner).get(name) is not None:
            return _line_in_class(owner, name, text)
    return None


def line_near(filename: str, line: int, text: str = "") -> str:
    """Return the line of a call, or the one soon behind it that has `text`: an argument's."""
    try:
        lines = linecache.getlines(filename)
    except Exception:
        lines = []
    return _place(filename, _line_with(lines, text, line, line + _LINES_OF_A_CALL))


def _line_in_class(owner: type[object], name: str, text: str) -> str | None:
    try:
        filename = inspect.getsourcefile(owner)
        lines = linecache.getlines(filename) if filename else []
    except Exception:
        return None
    if not filename or not lines:
        return None
    node = _class_node("".join(lines), owner)
    if node is None:
        return None
    span = _span(node, name)
    if span is None:
        return _place(filename, node.lineno)
    return _place(filename, _line_with(lines, text, *span))


def _class_node(source: str, owner: type[object]) -> ast.ClassDef | None:
    """The definition of a class, by its qualified name; of several the one with its docstring."""
    found = [node for path, node in _classes(source) if path == owner.__qualname__]
    for node in found:
        if owner.__doc__ and ast.get_docstring(node) == inspect.cleandoc(owner.__doc__):
            return node
    return found[-1] if found else None


@lru_cache(maxsize=16)
def _classes(source: str) -> tuple[tuple[str, ast.ClassDef], ...]:
    try:
        return tuple(_walk(ast.parse(source), ""))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()


def _walk(node: ast.AST, path: str) -> Iterator[tuple[str, ast.ClassDef]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef):
            yield f"{path}{child.name}", child
            yield from _walk(child, f"{path}{child.name}.")
        elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _walk(child, f"{path}{child.name}.<locals>.")
        else:
            yield from _walk(child, path)


def _span(node: ast.ClassDef, name: str) -> tuple[int, int] | None:
    """First and last line of what sets an attribute; the last such statement counts."""
    if name == "__doc__":
        first = node.body[0]
        is_text = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
        return (first.lineno, first.end_lineno or first.lineno) if is_text else None
    spans = [
        (statement.lineno, statement.end_lineno or statement.lineno)
        for statement in node.body
        if _sets(statement, name)
    ]
    return spans[-1] if spans else None


def _sets(statement: ast.stmt, name: str) -> bool:
    match statement:
        case ast.Assign(targets=targets):
            return any(isinstance(each, ast.Name) and each.id == name for each in targets)
        case ast.AnnAssign(target=ast.Name(id=target)):
            return target == name
        case ast.FunctionDef(name=defined) | ast.AsyncFunctionDef(name=defined):
            return defined == name
        case _:
            return False


def _line_with(lines: list[str], text: str, first: int, last: int) -> int:
    """The line in `first`..`last` (numbers from 1) that has the text's beginning, or `first`."""
    wanted = text.strip().split("\n", 1)[0]
    if wanted:
        for number in range(first, min(last, len(lines)) + 1):
            if wanted in lines[number - 1]:
                return number
    return first


def _place(filename: str, line: int) -> str:
    try:
        shown = os.path.relpath(filename)
    except (ValueError, OSError):  # another drive, or a working directory that is gone
        shown = filename
    return f"{filename if shown.startswith(os.pardir) else shown}:{line}"
