"""Whatever happens to a certificate's files, the last ones that worked are served."""

from __future__ import annotations

import os
import ssl
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentkit_runtime.server.certificate import Certificate
from tests.runtime.tenancy.certificates import write_certificate

PAIRS = 3
CHANGES = st.one_of(
    st.tuples(st.just("pair"), st.integers(0, PAIRS - 1)),
    st.tuples(st.just("cert"), st.integers(0, PAIRS - 1)),
    st.tuples(st.just("key"), st.integers(0, PAIRS - 1)),
    st.tuples(st.sampled_from(["junk", "empty", "gone", "look"]), st.integers(0, 1)),
)


class Files:
    """A certificate and its key on disk, which are replaced as renewals do it."""

    def __init__(self, folder: Path) -> None:
        self._made = [write_certificate(folder / str(n), serial=1 + n) for n in range(PAIRS)]
        self.paths = (folder / "cert.pem", folder / "key.pem")
        self.there: list[int | None] = [None, None]
        """Of which pair each file is; None: of none."""

    def change(self, kind: str, which: int) -> None:
        match kind:
            case "pair":
                self._copy(0, which)
                self._copy(1, which)
            case "cert" | "key":
                self._copy(("cert", "key").index(kind), which)
            case "junk" | "empty":
                self._write(which, b"-----BEGIN CERTIFICATE-----\nx" * (kind == "junk"))
            case "gone":
                self.paths[which].unlink(missing_ok=True)
                self.there[which] = None

    def _copy(self, file: int, pair: int) -> None:
        self._write(file, self._made[pair][file].read_bytes())
        self.there[file] = pair

    def _write(self, file: int, content: bytes) -> None:
        new = self.paths[file].with_suffix(".new")
        new.write_bytes(content)
        os.replace(new, self.paths[file])
        self.there[file] = None


def served(certificate: Certificate) -> int:
    """The serial number that a new connection is shown."""
    wanted = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    wanted.check_hostname, wanted.verify_mode = False, ssl.CERT_NONE
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = wanted.wrap_bio(to_client, to_server)
    server = certificate.context.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(4):
        for side in (client, server):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    raw = client.getpeercert(binary_form=True)
    assert raw is not None
    x509 = pytest.importorskip("cryptography.x509")
    serial: int = x509.load_der_x509_certificate(raw).serial_number
    return serial


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files(tmp_path_factory.mktemp("tls"))


@settings(max_examples=12, deadline=None)
@given(changes=st.lists(CHANGES, min_size=2, max_size=8))
def test_the_last_files_that_worked_are_served(
    files: Files, changes: list[tuple[str, int]]
) -> None:
    files.change("pair", 0)
    certificate = Certificate(*files.paths)
    works = 0
    for kind, which in changes:
        files.change(kind, which)
        certificate.look()
        assert served(certificate) == 1 + works, "what may still be being written was taken"
        certificate.look()  # now it is settled
        cert, key = files.there
        works = cert if cert is not None and cert == key else works
        assert served(certificate) == 1 + works
