"""What is never written down: keys, tokens, cookies, and what the user names."""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Iterable, Mapping
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

REMOVED = "REMOVED"

_KEPT_OF_REQUESTS = frozenset(("accept", "anthropic-beta", "anthropic-version", "content-type"))
_KEPT_OF_RESPONSES = re.compile(
    r"content-type|retry-after(-ms)?|request-id|x-request-id|x-should-retry"
    r"|(anthropic|x)-ratelimit-.+"
)
"""Headers that are kept; all others may hold an account, an organisation or a cookie."""
_SECRET_NAME = re.compile(r"key|token|secret|sig|passw|auth|cred|session", re.IGNORECASE)
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
            value
            for name, value in given.items()
            if _SECRET_VARIABLE.search(name) and len(value) >= _SHORTEST_OF_ENVIRONMENT
        }

    def learn(self, headers: Iterable[tuple[str, str]], url: str) -> None:
        """Take the secrets of a request for secrets wherever else they stand."""
        found: list[str] = []
        for name, value in headers:
            if name.lower() in ("authorization", "proxy-authorization"):
                found.append(value.partition(" ")[2] or value)
            elif name.lower() == "cookie":
                found += [part.partition("=")[2].strip() for part in value.split(";")]
            elif _SECRET_NAME.search(name) and name.lower() not in _KEPT_OF_REQUESTS:
                found.append(value)
        found += [value for name, value in parse_qsl(urlsplit(url).query) if _is_secret(name)]
        found += [urlsplit(url).password or ""]
        self._values |= {value for value in found if len(value) >= _SHORTEST}

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
            encoded = base64.b64encode(value.encode()).decode()
            for form in (value, quote(value, safe=""), encoded):
                text = text.replace(form, REMOVED)
        for pattern in self._patterns:
            text = pattern.sub(_without_groups, text)
        return text

    def data(self, data: bytes) -> bytes:
        """Return bytes without the secrets that are known."""
        return self.text(data.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")

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
            name.lower(): self.text(value)
            for name, value in headers
            if _KEPT_OF_RESPONSES.fullmatch(name.lower())
        }


def _is_secret(name: str) -> bool:
    return _SECRET_NAME.search(name) is not None


def _without_groups(match: re.Match[str]) -> str:
    if not match.re.groups:
        return REMOVED
    text, start = match[0], match.start()
    for number in range(match.re.groups, 0, -1):
        if match[number] is not None:
            begin, end = match.start(number) - start, match.end(number) - start
            text = text[:begin] + REMOVED + text[end:]
    return text
