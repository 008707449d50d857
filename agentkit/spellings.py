"""How a secret may be spelled: escaped in JSON or in a URL, in base64, in hex."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator

_PLAIN = re.compile(r"[A-Za-z0-9_.~-]")
"""What nobody escapes."""
_ESCAPES = {"\n": "n", "\r": "r", "\t": "t", "\b": "b", "\f": "f"}
_SPACE = " "
_BACKSLASHES = r"(?:\\(?:u005[cC])?|%5[cC])+"
"""A run of them, however each is spelled."""
_NOT_WITHIN = r"(?<!\\)(?<!%5[cC])(?<!\\u005[cC])"
"""Behind no other one."""


def spellings(secret: str) -> tuple[re.Pattern[str], ...]:
    """Return expressions that find a secret in a text, longest spelling first.

    Each takes every character as it is, percent-encoded, or escaped once or more often in JSON. So
    that a secret is also found inside a longer text in base64, there is one spelling for each place
    at which it may begin there.
    """
    data = secret.encode("utf-8", "surrogateescape")
    texts = {secret, data.hex(), data.hex().upper()}
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        texts.add(encode(data).decode())
        texts.update(_inside(encode, data))
    ordered = sorted(texts, key=lambda text: (-len(text), text))
    return tuple(re.compile(_expression(text)) for text in ordered)


def _inside(encode: Callable[[bytes], bytes], data: bytes) -> Iterator[str]:
    """Yield what of the base64 of a longer text depends on the secret alone."""
    for n_before in range(3):
        text = encode(bytes(n_before) + data).decode()
        yield text[-(-8 * n_before // 6) : 8 * (n_before + len(data)) // 6]


def _expression(text: str) -> str:
    # Neighbours would be tried in all their combinations, so a run of backslashes is one.
    chars = re.sub(r"\\+", r"\\", text)
    return "".join(map(_any_spelling, chars, ("", *chars)))


def _any_spelling(char: str, before: str) -> str:
    if _PLAIN.fullmatch(char):
        return re.escape(char)
    if char == "\\":
        return _BACKSLASHES if before else rf"{_NOT_WITHIN}{_BACKSLASHES}"
    utf8 = char.encode("utf-8", "surrogateescape")
    utf16 = char.encode("utf-16-be", "surrogatepass").hex()
    found = [
        *_literally(char, before),
        "".join(f"%{_any_case(f'{byte:02x}')}" for byte in utf8),
        _escaping("+", before)
        + r"\\+".join(f"u{_any_case(utf16[at : at + 4])}" for at in range(0, len(utf16), 4)),
    ]
    if char == _SPACE:
        found.append(r"\+")
    return f"(?:{'|'.join(found)})"


def _literally(char: str, before: str) -> Iterator[str]:
    if char in "\"'/":
        yield _escaping("*", before) + re.escape(char)
        return
    yield re.escape(char)
    if char in _ESCAPES:
        yield _escaping("+", before) + _ESCAPES[char]


def _escaping(how_many: str, before: str) -> str:
    """The backslashes before something, once: they are not looked at again from each of them."""
    if before == "\\":
        return ""  # they belong to it
    return rf"\\{how_many}" if before else rf"(?<!\\)\\{how_many}"


def _any_case(digits: str) -> str:
    return "".join(f"[{each}{each.upper()}]" if each.isalpha() else each for each in digits)
