"""API keys: `ak_live_`, 43 random characters, 6 characters of a check sum.

The random part has 256 bits, so a plain SHA-256 of a key is safe at rest: there is nothing to guess
that a slow hash would make dearer. A slow hash would cost each request, and hand anybody who sends
wrong keys a way to keep the server busy.

The prefix and the check sum let secret scanners recognise a key that was committed by mistake, and
let the server tell a mangled key from an unknown one without looking it up.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import string
import zlib

PREFIX = "ak_live_"

_ALPHABET = string.digits + string.ascii_uppercase + string.ascii_lowercase
_RANDOM_BITS = 256
_RANDOM_CHARS = 43
"""62 ** 43 is more than 2 ** 256."""
_CHECK_CHARS = 6
"""62 ** 6 is more than 2 ** 32."""
_SHOWN_CHARS = 4

_FORM = re.compile(rf"{PREFIX}([0-9A-Za-z]{{{_RANDOM_CHARS}}})([0-9A-Za-z]{{{_CHECK_CHARS}}})")


def new_key() -> str:
    """A key that nobody has had before."""
    body = _base62(secrets.randbits(_RANDOM_BITS), _RANDOM_CHARS)
    return f"{PREFIX}{body}{_check_sum(body)}"


def is_key(text: str) -> bool:
    """Whether a text has the form of a key, check sum included."""
    found = _FORM.fullmatch(text)
    return found is not None and _check_sum(found[1]) == found[2]


def digest(key: str) -> bytes:
    """What is stored of a key, and looked up (32 bytes)."""
    return hashlib.sha256(key.encode()).digest()


def shown(key: str) -> str:
    """The beginning of a key, for lists: enough to recognise it, and 232 bits short of it."""
    return key[: len(PREFIX) + _SHOWN_CHARS]


def _base62(number: int, n_chars: int) -> str:
    chars = []
    for _ in range(n_chars):
        number, digit = divmod(number, len(_ALPHABET))
        chars.append(_ALPHABET[digit])
    return "".join(reversed(chars))


def _check_sum(body: str) -> str:
    return _base62(zlib.crc32(body.encode()), _CHECK_CHARS)
