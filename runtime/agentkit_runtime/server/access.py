"""Who may reach a server, and over what."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from agentkit_runtime.api.origins import is_loopback, require_origin
from agentkit_runtime.server.certificate import Certificate


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Keys, origins and TLS. Raises ValueError for what does not fit together."""

    keys: Path | None = None
    """The key store. None asks nobody for a key."""
    insecure_open: bool = False
    """Listen where others can reach it although nobody is asked for a key."""
    cors_origins: tuple[str, ...] = ()
    """Web pages of these origins may use the server."""
    tls_cert: Path | None = None
    """PEM file of the certificate and its chain."""
    tls_key: Path | None = None
    """PEM file of its private key, without a password."""

    def __post_init__(self) -> None:
        for origin in self.cors_origins:
            require_origin(origin)
        if (self.tls_cert is None) != (self.tls_key is None):
            raise ValueError("--tls-cert and --tls-key go together: give both, or neither")
        if self.insecure_open and self.keys is not None:
            raise ValueError("--insecure-open and --keys contradict each other: leave one out")

    def require_fit_for(self, host: str) -> None:
        """Raise ValueError where everybody could use a server that listens on `host`."""
        if self.keys is None and not self.insecure_open and not is_loopback(host):
            raise ValueError(
                f"on {host} others could reach this server and use it without a key; give it keys "
                "(--keys FILE, made by `agentkit-runtime keys add`), or say --insecure-open if "
                "everybody who can reach it may use it"
            )

    @contextmanager
    def tls(self) -> Iterator[ssl.SSLContext | None]:
        """What connections are wrapped in: TLS 1.2 or newer; None without a certificate.

        While the block runs the files are followed: new ones count for new connections.

        Raises:
            OSError: the files cannot be read, or do not belong together.
        """
        if self.tls_cert is None or self.tls_key is None:
            yield None
            return
        with Certificate(self.tls_cert, self.tls_key) as certificate:
            yield certificate.context
