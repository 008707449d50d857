"""Names that can be taken for each other, and texts of one server that speak of another's tools."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations

from agentkit.toolset.mcp.trust.confusables import folded
from agentkit.toolset.mcp.trust.flag import Flag, Severity, excerpt
from agentkit.toolset.mcp.trust.scan import texts_of
from agentkit.toolset.tool import ToolSpec

_SEPARATORS = re.compile(r"[\s._/-]+")
_DIGITS = str.maketrans("01", "ol")
_LEAST = 7
"""Shorter names are near to each other by chance."""
_NAME = re.compile(r"(?<![\w-])[A-Za-z][A-Za-z0-9]*(?:[_-]+[A-Za-z0-9]+)+(?![\w-])")
"""A word that can only be a name: `read_file`, and not `search`."""
_REDIRECTS = re.compile(
    r"\b(?:instead|rather than|never use|(?:do not|don't) (?:use|call)|(?:replace|deprecate)[sd]?"
    r"|whenever|(?:when|if|before|after) (?:the )?(?:tool )?\S+ is (?:used|called)|recipient)\b"
)
_WELL_KNOWN = (
    "create_issue", "create_pull_request", "create_repository", "delete_file", "edit_file",
    "execute_command", "execute_query", "execute_sql", "fetch_url", "get_file_contents",
    "git_commit", "git_diff", "git_log", "git_status", "list_directory", "list_files",
    "list_tables", "move_file", "navigate_page", "read_file", "read_graph", "read_multiple_files",
    "read_query", "run_command", "run_query", "search_code", "search_files", "search_nodes",
    "search_repositories", "send_email", "send_message", "take_screenshot", "web_search",
    "write_file", "write_query",
)  # fmt: skip

_Named = tuple[str, str]
"""A server's alias and the server's own name for a tool."""


def between(servers: Mapping[str, Iterable[tuple[str, ToolSpec]]]) -> tuple[Flag, ...]:
    """Return all flags that tools have beside each other.

    Args:
        servers: by alias, the server's own name of each tool and its spec.
    """
    tools = {alias: dict(offered) for alias, offered in servers.items()}
    texts = {
        (alias, name): "\n".join(
            (spec.description, *(text for _, text in texts_of(spec.parameters)))
        )
        for alias, offered in tools.items()
        for name, spec in offered.items()
    }
    return (*look_alikes(tools), *shadowing(texts))


def look_alikes(servers: Mapping[str, Iterable[str]]) -> tuple[Flag, ...]:
    """Return flags for names that a person or a model may take for another tool's.

    Args:
        servers: by alias, the servers' own names of the tools.
    """
    named = sorted((alias, name) for alias, names in servers.items() for name in set(names))
    found = [flag for each in named if (flag := _disguised(each))]
    found += _same_skeleton(named)
    found += _near(named)
    return tuple(found)


def shadowing(texts: Mapping[_Named, str]) -> tuple[Flag, ...]:
    """Return flags for texts of one server that name a tool of another.

    Such a text can change how another server's tool is used, without that server's doing.

    Args:
        texts: by alias and name, what a model reads of the tool.
    """
    owners: dict[str, set[str]] = {}
    for alias, name in texts:
        owners.setdefault(name.casefold(), set()).add(alias)
        owners.setdefault(f"{alias}__{name}".casefold(), set()).add(alias)
    return tuple(
        flag for named, text in sorted(texts.items()) for flag in _shadows(named, text, owners)
    )


def _shadows(named: _Named, text: str, owners: Mapping[str, set[str]]) -> Iterator[Flag]:
    alias, _ = named
    seen: set[str] = set()
    for hit in _NAME.finditer(text):
        word = hit[0].casefold()
        others = owners.get(word, set())
        if word in seen or not others or alias in others:
            continue
        seen.add(word)
        around = text[max(0, hit.start() - 80) : hit.end() + 120]
        severity: Severity = "danger" if _REDIRECTS.search(around.casefold()) else "warning"
        what = f"speaks of {hit[0]!r}, a tool of {', '.join(map(repr, sorted(others)))}"
        yield Flag(severity, "shadowing", _where(named), f"{what}: {excerpt(around)}")


def _where(named: _Named) -> str:
    alias, name = named
    return f"tool {name!r} of {alias!r}"


def _disguised(named: _Named) -> Flag | None:
    """A name in letters of another script that reads as if it were in Latin ones."""
    _, name = named
    if name.isascii() or not folded(name).isascii():
        return None
    codes = ", ".join(f"U+{ord(c):04X}" for c in dict.fromkeys(name) if not c.isascii())
    what = f"has letters that look like others ({codes}): it reads {folded(name)!r}"
    return Flag("danger", "look-alike", _where(named), what)


def _same_skeleton(named: list[_Named]) -> Iterator[Flag]:
    groups: dict[str, list[_Named]] = {}
    for each in named:
        groups.setdefault(_skeleton(each[1]).translate(_DIGITS), []).append(each)
    for group in groups.values():
        for first, second in combinations(group, 2):
            if first[0] != second[0] or first[1] != second[1]:
                severity, what = _resemblance(first[1], second[1])
                yield Flag(severity, "look-alike", _where(first), f"{what} {_where(second)}")


def _resemblance(first: str, second: str) -> tuple[Severity, str]:
    if first == second:
        return "note", "has the name of"
    if first.isascii() and second.isascii() and _skeleton(first) == _skeleton(second):
        return "warning", "differs only in case or separators from"
    return "danger", "looks like"


def _near(named: list[_Named]) -> Iterator[Flag]:
    """Names that are one slip of the pen apart: found by what is left without one letter."""
    own = {name for _, name in named}
    pool = [*named, *(("", name) for name in sorted(set(_WELL_KNOWN) - own))]
    shorter: dict[str, list[_Named]] = {}
    for each in pool:
        skeleton = _skeleton(each[1])
        if len(skeleton) >= _LEAST:
            for left in {skeleton[:i] + skeleton[i + 1 :] for i in range(len(skeleton))} | {
                skeleton
            }:
                shorter.setdefault(left, []).append(each)
    pairs = {tuple(sorted(pair)) for group in shorter.values() for pair in combinations(group, 2)}
    for first, second in sorted(pairs):
        if first[0] != second[0] and _is_a_slip(_skeleton(first[1]), _skeleton(second[1])):
            seen, other = (second, first) if not first[0] else (first, second)
            whose = _where(other) if other[0] else f"the usual name {other[1]!r}"
            yield Flag("warning", "look-alike", _where(seen), f"is one slip away from {whose}")


def _is_a_slip(first: str, second: str) -> bool:
    """Whether two letters are swapped, or one is missing or twice; but not the s of a plural.

    Other letters make other words: `add_node` and `add_note` are two honest names.
    """
    if len(first) == len(second):
        differing = [i for i in range(len(first)) if first[i] != second[i]]
        if len(differing) != 2 or differing[1] != differing[0] + 1:
            return False
        i, j = differing
        return first[i] == second[j] and first[j] == second[i]
    short, long = sorted((first, second), key=len)
    if len(long) != len(short) + 1 or long == f"{short}s":
        return False
    return any(long[:i] + long[i + 1 :] == short for i in range(len(long)))


def _skeleton(name: str) -> str:
    return _SEPARATORS.sub("", folded(name))
