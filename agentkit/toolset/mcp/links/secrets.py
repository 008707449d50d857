"""What a server was given in confidence, kept out of messages, warnings and logs.

Servers print their environment, repeat the token that they refuse, and are called at addresses
that hold a key. What they say of themselves reaches a model, a user and a log all the same.
"""

from __future__ import annotations

import base64
import functools
import logging
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from urllib.parse import parse_qsl, urlsplit

from agentkit.spellings import spellings
from agentkit.toolset.mcp.links.credentials import credentials_of, without, worth_hiding
from agentkit.toolset.mcp.server import McpServer

_HIDDEN = "***"
_SHORTEST = 6
"""Shorter values are words such as "true", which would be hidden everywhere."""
_MOST_CHARS = 64 * 1024
"""More of a text is not looked through, and so not shown."""
_LONGEST = 8 * 1024
"""Of a secret as it is spelled; where a text is cut, so much of it may be part of one."""
_LOGGERS = ("mcp", "httpx2", "httpcore2")
"""First parts of the names under which an address, or what a server sends, is logged."""
_MORE_LOGGERS = ("client", "agentkit.mcp")
"""Whole names. The SDK's session logs as `client`."""
_CREDENTIALS = ("authorization", "proxy-authorization", "cookie")

_spellings = functools.lru_cache(maxsize=256)(spellings)


class ServerSecrets:
    """The secrets of one server: values of `env` and of what `inherit_env` names, of `headers`, of
    the URL's query, and what `auth` has put into requests.

    They are found as they are, escaped in JSON or in a URL, in base64 and in hex. Results of tools
    are looked through for credentials only, as they are: a result may have to name a folder that
    the server was given.
    """

    def __init__(self, server: McpServer) -> None:
        inherited = {name: os.environ.get(name, "") for name in server.inherit_env}
        self._values: set[str] = set()
        self._credentials = credentials_of(server.headers) | credentials_of(
            {**inherited, **server.env}
        )
        self._learn((*server.env.values(), *inherited.values()))
        self.learn_headers(server.headers)
        if server.url is not None:
            self.learn_url(server.url)

    def hidden(self, text: str) -> str:
        """Return a text for messages: without the secrets, and not longer than 64 Ki characters."""
        is_cut = len(text) > _MOST_CHARS
        text = text[:_MOST_CHARS]
        for value in sorted(self._values, key=lambda each: (-len(each), each)):
            for spelling in _spellings(value):
                text = spelling.sub(_HIDDEN, text)
        return f"{text[:-_LONGEST]}..." if is_cut else text

    def out_of_result(self, result: Mapping[str, object]) -> Mapping[str, object]:
        """Return a raw result without the credentials; the very same where there are none."""
        shown = without(self._credentials, result)
        return shown if isinstance(shown, Mapping) else result

    def learn_headers(self, headers: Mapping[str, str], *, only_credentials: bool = False) -> None:
        """Take the values of headers for secrets; of a request as it was sent only credentials."""
        for name, value in headers.items():
            is_credential = name.lower() in _CREDENTIALS
            if only_credentials and not is_credential:
                continue
            parts = (value, *(_parts_of(name.lower(), value) if is_credential else ()))
            self._learn(parts)
            if is_credential:
                self._credentials |= worth_hiding(parts)

    def learn_url(self, url: str) -> None:
        """Take what an address carries behind its path for secrets."""
        parts = urlsplit(url)
        values = [value for _, value in parse_qsl(parts.query)]
        self._learn((parts.query, parts.fragment, *values))

    @contextmanager
    def kept_from_logs(self) -> Iterator[None]:
        """Hide the secrets, inside, in what the SDK and its HTTP client log."""
        loggers = [logging.getLogger(name) for name in _loggers()]
        mask = _Mask(self)
        for logger in loggers:
            logger.addFilter(mask)
        try:
            yield
        finally:
            for logger in loggers:
                logger.removeFilter(mask)

    def _learn(self, values: Iterable[str]) -> None:
        self._values.update(value for value in values if len(value) >= _SHORTEST)


class _Mask(logging.Filter):
    """Lets every record through, without the secrets."""

    def __init__(self, secrets: ServerSecrets) -> None:
        super().__init__()
        self._secrets = secrets

    def filter(self, record: logging.LogRecord) -> bool:
        try:
            said = record.getMessage()
        except (TypeError, ValueError):
            return True  # logging itself says what is wrong with it
        if (shown := self._secrets.hidden(said)) != said:
            record.msg, record.args = shown, None
        if record.exc_info and record.exc_info[0] is not None:
            # Formatters take this text, and look at the exception no more.
            trace = record.exc_text or logging.Formatter().formatException(record.exc_info)
            if (shown := self._secrets.hidden(trace)) != trace:
                record.exc_text, record.exc_info = shown, None
        return True


def _loggers() -> list[str]:
    known = list(logging.root.manager.loggerDict)
    return [*_MORE_LOGGERS, *(name for name in known if name.partition(".")[0] in _LOGGERS)]


def _parts_of(name: str, value: str) -> Iterator[str]:
    """Yield what is secret in a credential: it may be repeated without the words around it."""
    if name == "cookie":
        yield from (part.partition("=")[2].strip() for part in value.split(";"))
        return
    scheme, _, credential = value.partition(" ")
    yield credential.strip()
    if scheme.lower() == "basic":
        try:
            plain = base64.b64decode(credential).decode()
        except ValueError:
            return
        user, _, password = plain.partition(":")
        yield password or user
