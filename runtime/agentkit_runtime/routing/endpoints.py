"""Addresses of ZeroMQ sockets. No ZeroMQ here."""

from __future__ import annotations

import ipaddress
import re

_TCP = re.compile(r"tcp://(?P<host>\*|\[[0-9a-fA-F:.]+\]|[^\s/:\[\]]+):(?P<port>\*|\d{1,5})")


def require_endpoint(endpoint: str) -> None:
    """Raise ValueError for what is neither `tcp://HOST:PORT` nor `ipc://PATH`."""
    tcp = _TCP.fullmatch(endpoint)
    if tcp is not None and (tcp["port"] == "*" or 0 < int(tcp["port"]) < 65_536):
        return
    if endpoint.startswith("ipc://") and len(endpoint) > len("ipc://"):
        return
    raise ValueError(
        f"a ZeroMQ address is tcp://HOST:PORT or ipc://PATH, such as tcp://127.0.0.1:5557, got "
        f"{endpoint!r}"
    )


def is_exposed(endpoint: str) -> bool:
    """Whether other machines can reach this address. A name other than localhost counts as such."""
    tcp = _TCP.fullmatch(endpoint)
    if tcp is None:
        return False
    host = tcp["host"].strip("[]")
    if host == "localhost":
        return False
    try:
        return not ipaddress.ip_address(host).is_loopback
    except ValueError:
        return True
