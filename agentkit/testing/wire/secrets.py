"""What is never written down: keys, tokens, cookies, and what the user names."""

from __future__ import annotations

import base64
import functools
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit, urlunsplit

from agentkit.spellings import spellings
from agentkit.testing.wire.named import removed_by_name, secrets_by_name

REMOVED = "REMOVED"

_KEPT_OF_REQUESTS = frozenset(("accept", "anthropic-beta", "anthropic-version", "content-type"))
_KEPT_OF_RESPONSES = re.compile(
    r"content-type|location|retry-after(-ms)?|request-id|x-request-id|x-should-retry"
    r"|(anthropic|x)-ratelimit-(.+-)?(limit|remaining|reset)(-.+)?"
)
"""Headers that are kept; all others may hold an account, an organisation or a cookie.

Bodies are kept as they are without a `content-encoding`."""
_SECRET_NAME = re.compile(r"key|token|secret|sig|passw|auth|cred|session", re.IGNORECASE)
"""In names of headers and of parameters of URLs."""
_SECRET_PARAMETER = re.compile(r"code|assertion|jwt|otp|ticket", re.IGNORECASE)
_WORD = re.compile(r"[a-z_ -]+|[A-Z_ -]+|[A-Z][a-z_ -]+")
"""What is removed in a field of such a name, and not wherever else it stands."""
_SECRET_VARIABLE = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD)$")
_SHORTEST = 8
"""Shorter values are no keys; they would be found everywhere."""
_SHORTEST_OF_ENVIRONMENT = 16
"""A variable with such a name may hold a word; who replays has other variables."""


class Scrubber:
    """Takes secrets out of what is written down, and out of what is compared with it.

    Args:
        patterns: regular expressions of your own; the whole match is removed, or its groups.
        environment: whose values of names such as `..._API_KEY` are secrets.
    """

    def __init__(
        self, patterns: Iterable[str] = (), environment: Mapping[str, str] | None = None
    ) -> None:
        self._patterns = [re.compile(pattern) for pattern in patterns]
        given = os.environ if environment is None else environment
        self._values = {
            value.strip()
            for name, value in given.items()
            if _SECRET_VARIABLE.search(name) and len(value.strip()) >= _SHORTEST_OF_ENVIRONMENT
        }

    def learn(self, headers: Iterable[tuple[str, str]], url: str) -> None:
        """Take the secrets of a request for secrets wherever else they stand."""
        found: list[str] = []
        for name, value in headers:
            if name.lower() in ("authorization", "proxy-authorization"):
                found += _of_authorization(value)
            elif name.lower() == "cookie":
                found += [part.partition("=")[2].strip() for part in value.split(";")]
            elif _SECRET_NAME.search(name) and name.lower() not in _KEPT_OF_REQUESTS:
                found.append(value)
        parts = urlsplit(url)
        found += [value for name, value in parse_qsl(parts.query) if _is_secret(name)]
        found += _of_user(unquote(parts.username or ""), unquote(parts.password or ""))
        self._learn(found)

    def learn_body(self, body: bytes) -> None:
        """Take what is secret by name in a body for a secret wherever else it stands."""
        found = secrets_by_name(body.decode("utf-8", "surrogateescape"))
        self._learn(value for value in found if not _WORD.fullmatch(value))

    def url(self, url: str) -> str:
        """Return a URL without users, passwords, and parameters that are secret by name."""
        parts = urlsplit(url)
        query = [
            (name, REMOVED if _is_secret(name) else value)
            for name, value in parse_qsl(parts.query, keep_blank_values=True)
        ]
        host = parts.netloc.rpartition("@")[2]
        return self.text(urlunsplit((parts.scheme, host, parts.path, urlencode(query), "")))

    def text(self, text: str) -> str:
        """Return a text without the secrets that are known."""
        for value in sorted(self._values, key=len, reverse=True):
            for spelling in _spellings(value):
                text = spelling.sub(REMOVED, text)
        for pattern in self._patterns:
            text = pattern.sub(_without_groups, text)
        return text

    def data(self, data: bytes) -> bytes:
        """Return a body without the secrets that are known, and without those that are by name."""
        text = removed_by_name(self.text(data.decode("utf-8", "surrogateescape")), REMOVED)
        return text.encode("utf-8", "surrogateescape")

    def request_headers(self, headers: Iterable[tuple[str, str]]) -> dict[str, str]:
        """Return the headers of a request that are kept."""
        return {
            name.lower(): self.text(value)
            for name, value in headers
            if name.lower() in _KEPT_OF_REQUESTS
        }

    def response_headers(self, headers: Iterable[tuple[str, str]]) -> dict[str, str]:
        """Return the headers of a response that are kept."""
        return {
            name.lower(): self.url(value) if name.lower() == "location" else self.text(value)
            for name, value in headers
            if _KEPT_OF_RESPONSES.fullmatch(name.lower())
        }

    def _learn(self, values: Iterable[str]) -> None:
        self._values |= {value for value in values if len(value) >= _SHORTEST}


_spellings = functools.lru_cache(maxsize=256)(spellings)


def _of_authorization(value: str) -> Iterator[str]:
    scheme, _, credentials = value.partition(" ")
    yield credentials or value
    if scheme.lower() == "basic":
        try:
            plain = base64.b64decode(credentials).decode()
        except ValueError:
            return
        user, _, password = plain.partition(":")
        yield from _of_user(user, password)


def _of_user(user: str, password: str) -> Iterator[str]:
    """Yield the password; without one, the name is the key."""
    yield password or user


def _is_secret(name: str) -> bool:
    return bool(_SECRET_NAME.search(name) or _SECRET_PARAMETER.fullmatch(name))


def _without_groups(match: re.Match[str]) -> str:
    if not match.re.groups:
        return REMOVED
    text, start = match[0], match.start()
    for number in range(match.re.groups, 0, -1):
        if match[number] is not None:
            begin, end = match.start(number) - start, match.end(number) - start
            text = text[:begin] + REMOVED + text[end:]
    return text
