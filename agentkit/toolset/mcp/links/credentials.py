"""Which of the values that a server was given are credentials, which no result has to repeat.

Other values may be data: a folder, a tenant's name, a language. So results are looked through for
credentials only, and for each as it was given: one that is a plain word would be hidden where the
word stands.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from urllib.parse import unquote, urlsplit

_SHORTEST = 8
_NAME = re.compile(
    r"token|secret|passw|pwd|credential|authori[sz]ation|cookie|api[_-]?key"
    r"|(?:^|[_-])(?:key|pat|auth)(?:$|[_-])",
    re.IGNORECASE,
)
_PLAIN_WORD = re.compile(r"[A-Za-z]+|\d+")
_MOST_DEPTH = 200
_TOO_DEEP = "(nested too deeply)"
_HIDDEN = "***"


def credentials_of(given: Mapping[str, str]) -> set[str]:
    """Return the credentials among environment variables or headers: by their names, and the
    passwords in addresses. No paths of files that are there."""
    named = (value for name, value in given.items() if _NAME.search(name) and not _is_path(value))
    passwords = [_password(value) for value in given.values() if "://" in value]
    return worth_hiding((*named, *passwords, *map(unquote, passwords)))


def worth_hiding(values: Iterable[str]) -> set[str]:
    """Return the values that cannot be meant where they stand by chance: 8 characters or more, and
    neither a plain word nor a number."""
    return {
        value for value in values if len(value) >= _SHORTEST and not _PLAIN_WORD.fullmatch(value)
    }


def without(credentials: Iterable[str], value: object) -> object:
    """Return a JSON value with `***` in place of credentials. Below 200 levels nothing is looked
    at, and so not shown."""
    # A text may be JSON itself.
    spelt = {*credentials, *(json.dumps(each)[1:-1] for each in credentials)}
    found = sorted(spelt, key=lambda each: (-len(each), each))
    return _without(found, value, _MOST_DEPTH) if found else value


def _without(credentials: list[str], value: object, depth: int) -> object:
    match value:
        case str():
            return _hidden(credentials, value)
        case Mapping() | list() if depth == 0:
            return _TOO_DEEP
        case Mapping():
            return {
                _hidden(credentials, str(key)): _without(credentials, each, depth - 1)
                for key, each in value.items()
            }
        case list():
            return [_without(credentials, each, depth - 1) for each in value]
        case _:
            return value


def _hidden(credentials: list[str], text: str) -> str:
    for each in credentials:
        text = text.replace(each, _HIDDEN)
    return text


def _password(address: str) -> str:
    try:
        return urlsplit(address).password or ""
    except ValueError:
        return ""


def _is_path(value: str) -> bool:
    try:
        return value.startswith(("/", "~", ".")) and os.path.exists(os.path.expanduser(value))
    except ValueError:  # a null byte
        return False
