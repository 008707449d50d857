"""Which addresses of the web may be fetched: a scheme, a host, a port, and where that leads."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass

import httpx2

from agentkit_tools._addresses import is_of_this_machine, why_not_public
from agentkit_tools._errors import Refused

_MAX_URL_CHARS = 4000
_DEFAULT_PORTS = {"http": 80, "https": 443}
_NAME = re.compile(
    r"(?=.{1,253}$)([a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?)(\.[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?)*"
)
_NUMERIC_END = re.compile(r"(^|\.)(\d+|0x[0-9a-f]*)$")
_ENTRY = re.compile(r"(?P<host>\[[0-9a-f:.]+\]|[^:\[\]/@]+)(:(?P<port>\d{1,5}|\*))?", re.IGNORECASE)


@dataclass(frozen=True)
class Allowed:
    """One host that may be fetched.

    Attributes:
        host: a name, an address, or `*.` with a name for all names below it.
        port: None: the usual port of the scheme. 0: any.
    """

    host: str
    port: int | None = None

    @classmethod
    def parse(cls, text: str) -> Allowed:
        """`HOST`, `HOST:PORT` or `HOST:*`, where HOST may be `*.example.org` or `[::1]`.

        Raises:
            ValueError: it is none of these.
        """
        match = _ENTRY.fullmatch(text)
        host = match["host"].strip("[]").lower().rstrip(".") if match else ""
        name = host.removeprefix("*.")
        if match is None or not (_NAME.fullmatch(name) or _address(name)):
            raise ValueError(
                f"{text!r} is no host; use example.org, *.example.org, example.org:8080, "
                "example.org:* or [::1]:8080"
            )
        if match["port"] in (None, "*"):
            return cls(host, None if match["port"] is None else 0)
        if not 1 <= int(match["port"]) <= 65_535:
            raise ValueError(f"{text!r} has no port from 1 to 65535")
        return cls(host, int(match["port"]))

    def covers(self, scheme: str, host: str, port: int) -> bool:
        """Whether this entry allows a host and port."""
        if self.port != 0 and port != (self.port or _DEFAULT_PORTS[scheme]):
            return False
        return host.endswith(self.host[1:]) if self.host.startswith("*.") else host == self.host


@dataclass(frozen=True)
class Target:
    """An address that passed the rules. `host` is in ASCII, in lower case, without a last dot."""

    url: httpx2.URL
    scheme: str
    host: str
    port: int


@dataclass(frozen=True, kw_only=True)
class Rules:
    """What may be fetched.

    Attributes:
        allow: hosts; empty: all, on the usual port of the scheme.
        allow_private: also addresses that are not public.
    """

    allow: tuple[Allowed, ...] = ()
    allow_private: bool = False

    def target(self, url: str | httpx2.URL) -> Target:
        """Take an address apart and check it, before any name is looked up.

        Raises:
            Refused: it is no address of the web, or not allowed.
        """
        parsed = _parsed(url)
        if parsed.scheme not in _DEFAULT_PORTS:
            raise Refused("only http:// and https:// addresses can be fetched")
        if parsed.userinfo:
            raise Refused("leave the user name and password out of the address")
        host = parsed.raw_host.decode("ascii").lower().rstrip(".")
        if not (_address(host) or (_NAME.fullmatch(host) and not _NUMERIC_END.search(host))):
            raise Refused(f"{host[:200]!r} is neither the name of a host nor a plain address")
        port = _DEFAULT_PORTS[parsed.scheme] if parsed.port is None else parsed.port
        self._check_allowed(parsed.scheme, host, port)
        plain = parsed.copy_with(host=host, fragment=None)
        return Target(url=plain, scheme=parsed.scheme, host=host, port=port)

    def check_addresses(self, host: str, addresses: list[str]) -> None:
        """Check where a name leads. One address that is not public spoils them all.

        Raises:
            Refused: there is none, or one is not public.
        """
        if not addresses:
            raise Refused(f"the name {host!r} has no address")
        if self.allow_private:
            return
        for address in addresses:
            if kind := why_not_public(address):
                raise Refused(f"{host!r} is not on the public internet (its address is {kind})")
            if is_of_this_machine(address):
                raise Refused(f"{host!r} is this machine itself, which is not reached")

    def _check_allowed(self, scheme: str, host: str, port: int) -> None:
        if self.allow:
            if not any(entry.covers(scheme, host, port) for entry in self.allow):
                hosts = ", ".join(_shown(entry) for entry in self.allow[:20])
                raise Refused(f"{host}:{port} is not allowed; allowed are: {hosts}")
        elif port != _DEFAULT_PORTS[scheme]:
            raise Refused(f"port {port} is not allowed; only {_DEFAULT_PORTS[scheme]} for {scheme}")


def addresses_of(host: str) -> list[str] | None:
    """The address that a host already is; None: it is a name."""
    return [host] if _address(host) else None


def _parsed(url: str | httpx2.URL) -> httpx2.URL:
    if isinstance(url, httpx2.URL):
        return url
    if len(url) > _MAX_URL_CHARS:
        raise Refused(f"the address must have at most {_MAX_URL_CHARS} characters")
    try:
        return httpx2.URL(url.strip())
    except (httpx2.InvalidURL, ValueError):
        raise Refused(
            "this is no valid address; it must be like https://example.org/page"
        ) from None


def _address(host: str) -> bool:
    """Whether this is an address in its one plain spelling; `127.1` and `0x7f.1` are not."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _shown(entry: Allowed) -> str:
    return entry.host if entry.port is None else f"{entry.host}:{entry.port or '*'}"
