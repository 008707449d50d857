"""What a server is told by name, and where it is."""

from __future__ import annotations

import hashlib
from urllib.parse import urlsplit

from agentkit.errors import ConfigurationError
from agentkit.models.own.tenant_keys import KEY_VARIABLE
from agentkit_runtime.types import Priority
from agentkit_runtime.wire_chat import MAX_LABEL_CHARS


def label_of(text: str) -> str:
    """Return a label that servers take: long ones are named by their digest."""
    if len(text) <= MAX_LABEL_CHARS:
        return text
    return f"{text[:64]}~{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"


def priority_of(name: str) -> Priority:
    """Return the class of that name. Raises ConfigurationError where there is none."""
    known = [priority.name.lower() for priority in Priority]
    if name not in known:
        raise ConfigurationError(f"priority must be one of {', '.join(known)}, got {name!r}")
    return Priority[name.upper()]


def checked_url(url: str) -> str:
    """Return a server's address without a path of the API. Raises ConfigurationError."""
    try:
        parts = urlsplit(url)
        is_url = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        is_url = False
    if not is_url or parts.query or parts.fragment:
        raise ConfigurationError(
            f"{url!r} is no address of a server; write for example http://localhost:8321"
        )
    if parts.username or parts.password:
        raise ConfigurationError(
            f"the address of {parts.hostname} holds a user or password, which would be shown in "
            f"reports; give the key as api_key or in {KEY_VARIABLE}"
        )
    return url.rstrip("/").removesuffix("/v1")
