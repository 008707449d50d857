"""A server's certificate, which may be replaced on disk while the server runs."""

from __future__ import annotations

import logging
import os
import ssl
import threading
from pathlib import Path
from typing import Self

_LOG = logging.getLogger(__name__)

LOOK_S = 5.0
"""How often the files are looked at. What has not changed since the look before is taken: so nobody
reads a certificate whose key is still being written."""

_Seen = tuple[tuple[int, ...], ...]


class Certificate:
    """TLS 1.2 or newer with the files as they are now. A context manager: watches them inside.

    New connections get the new certificate; those that are open keep theirs. Files that do not
    work are logged, and the last ones that did are used.
    """

    def __init__(self, cert: Path, key: Path, *, look_s: float = LOOK_S) -> None:
        """Load the files: PEM, the certificate with its chain, the key without a password.

        Raises:
            OSError: they cannot be read, or do not belong together.
        """
        self._files = (cert, key)
        self._look_s = look_s
        self._used = self._before = _seen(self._files)
        self._fault = ""
        """What was wrong with the files when they were read last."""
        self._current = self._load()
        self.context = self._load()
        """What connections are wrapped in."""
        # Called for each handshake, also where the client names no server. A context is replaced as
        # a whole: to load a chain into one that is in use could leave it half new.
        self.context.sni_callback = self._choose
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="agentkit-tls", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._closing.set()
        self._thread.join()

    def look(self) -> None:
        """Load the files again if they are others than those in use, and no longer change.

        Those that do not work are tried at each look: the reason may lie elsewhere.
        """
        found = _seen(self._files)
        is_settled, self._before = found == self._before, found
        if found == self._used:
            self._fault = ""
        if not is_settled or found == self._used:
            return
        try:
            self._current = self._load()
        except OSError as error:
            if str(error) != self._fault:
                _LOG.error("the certificate on disk is not used, the last one goes on: %s", error)
            self._fault = str(error)
        else:
            self._used, self._fault = found, ""
            _LOG.warning("new connections get the certificate that is in %s now", self._files[0])

    def _watch(self) -> None:
        while not self._closing.wait(self._look_s):
            self.look()

    def _choose(
        self, connection: ssl.SSLSocket | ssl.SSLObject, name: str | None, context: ssl.SSLContext
    ) -> None:
        connection.context = self._current

    def _load(self) -> ssl.SSLContext:
        cert, key = self._files
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            context.load_cert_chain(cert, key, password=_no_password)
        except OSError as error:  # an SSLError is one, too
            raise OSError(
                f"TLS cannot be served with {cert} and {key}: {error}; both are PEM files, and the "
                "key is that of the certificate, without a password"
            ) from error
        return context


def _no_password() -> str:
    """Without this, OpenSSL would ask for one on the terminal, and a server would hang there."""
    return ""


def _seen(files: tuple[Path, ...]) -> _Seen:
    """What tells one state of files from another; nothing of files that are not there.

    The time of the last change to an inode is in it: files may have become readable.
    """
    found: list[tuple[int, ...]] = []
    for path in files:
        try:
            stat = os.stat(path)
        except OSError:
            found.append(())
        else:
            found.append((stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns))
    return tuple(found)
