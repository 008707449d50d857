"""A certificate is replaced on disk while connections come: real handshakes over sockets."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import shutil
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentkit_runtime.server.certificate import Certificate
from tests.runtime.service.scripted import BOUND_S, wait_until
from tests.runtime.tenancy.certificates import write_certificate


class Port:
    """An asyncio server as uvicorn has one, in a thread: answers each line with itself."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._context = context
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))
        self.number = 0

    @contextlib.contextmanager
    def open(self) -> Iterator[None]:
        self._thread.start()
        assert self._ready.wait(BOUND_S)
        try:
            yield
        finally:
            self._loop.call_soon_threadsafe(self._closing.set)
            self._thread.join(BOUND_S)

    async def _run(self) -> None:
        self._loop, self._closing = asyncio.get_running_loop(), asyncio.Event()
        server = await asyncio.start_server(self._echo, "127.0.0.1", 0, ssl=self._context)
        self.number = server.sockets[0].getsockname()[1]
        self._ready.set()
        async with server:
            await self._closing.wait()

    async def _echo(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):  # it leaves in whatever way
            while line := await reader.readline():
                writer.write(line)
        writer.close()


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Levels of what the certificate logged; the port's loop complains of what ends with it."""
    ours = [record for record in caplog.records if record.name.startswith("agentkit_runtime")]
    return [record.levelname for record in ours]


class Client:
    """A connection; `serial` is that of the certificate it was shown."""

    def __init__(self, port: Port, name: str | None, version: ssl.TLSVersion | None = None) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        if version is not None:
            context.minimum_version = context.maximum_version = version
        plain = socket.create_connection(("127.0.0.1", port.number), BOUND_S)
        self.socket = context.wrap_socket(plain, server_hostname=name)

    @property
    def serial(self) -> object:
        x509 = pytest.importorskip("cryptography.x509")
        shown = self.socket.getpeercert(binary_form=True)
        assert shown is not None
        return x509.load_der_x509_certificate(shown).serial_number

    def echo(self, text: bytes) -> bytes:
        self.socket.sendall(text + b"\n")
        return self.socket.recv(len(text))


def serial(port: Port, name: str | None = None, version: ssl.TLSVersion | None = None) -> object:
    client = Client(port, name, version)
    with client.socket:
        return client.serial


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    return write_certificate(tmp_path / "live", serial=1)


def copy(new: Path, old: Path) -> None:
    """Overwrite a file; its time is another one then, however coarse the file system's clock."""
    before = old.stat().st_ctime_ns if old.exists() else None
    shutil.copy(new, old)
    while old.stat().st_ctime_ns == before:
        shutil.copy(new, old)


def replace(files: tuple[Path, Path], tmp_path: Path, number: int) -> None:
    for new, old in zip(write_certificate(tmp_path / "new", serial=number), files, strict=True):
        copy(new, old)


def test_new_connections_get_the_new_certificate_and_open_ones_go_on(
    files: tuple[Path, Path], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    certificate = Certificate(*files)
    port = Port(certificate.context)
    with port.open():
        before = Client(port, "localhost")
        replace(files, tmp_path, 2)
        certificate.look()  # seen to be another
        certificate.look()  # and the same once more
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            assert [serial(port, name, version) for name in ("localhost", None)] == [2, 2]
        assert (before.serial, before.echo(b"still there")) == (1, b"still there")
        before.socket.close()
        replace(files, tmp_path, 3)
        certificate.look()
        certificate.look()
        assert serial(port) == 3
    assert said(caplog) == ["WARNING"] * 2


def test_what_is_still_being_written_is_not_read(
    files: tuple[Path, Path], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A certificate whose key has not come yet, and then it comes."""
    certificate = Certificate(*files)
    port = Port(certificate.context)
    new = write_certificate(tmp_path / "new", serial=2)
    with port.open():
        copy(new[0], files[0])
        certificate.look()
        copy(new[1], files[1])
        certificate.look()
        assert (serial(port), said(caplog)) == (1, [])
        certificate.look()
        assert serial(port) == 2


def test_files_that_do_not_work_leave_the_last_certificate_and_are_logged_once(
    files: tuple[Path, Path], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    certificate = Certificate(*files)
    port = Port(certificate.context)
    with port.open():
        for break_them in (
            lambda: files[0].write_text("nonsense"),
            lambda: copy(write_certificate(tmp_path / "other", serial=9)[0], files[0]),
            files[1].unlink,
        ):
            caplog.clear()
            break_them()
            for _ in range(4):
                certificate.look()
            assert serial(port) == 1
            assert said(caplog) == ["ERROR"]
            assert str(files[0]) in caplog.text
        replace(files, tmp_path, 2)
        certificate.look()
        certificate.look()
        assert serial(port) == 2


def test_files_whose_rights_were_put_right_are_tried_again(
    files: tuple[Path, Path], caplog: pytest.LogCaptureFixture
) -> None:
    """Neither their contents nor their times of writing change."""
    certificate = Certificate(*files)
    certificate.look()
    assert said(caplog) == []
    before = files[1].stat().st_ctime_ns
    while files[1].stat().st_ctime_ns == before:
        files[1].chmod(0o640)
    certificate.look()
    certificate.look()
    assert said(caplog) == ["WARNING"]


def test_files_that_could_not_be_read_for_a_while_are_read_later(
    files: tuple[Path, Path],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Such as by a server that had too many files open; the files stay as they are."""
    certificate = Certificate(*files)
    port = Port(certificate.context)
    new = write_certificate(tmp_path / "new", serial=2)
    with port.open():
        with monkeypatch.context() as patched:
            patched.setattr(ssl.SSLContext, "load_cert_chain", _too_many_files)
            for source, file in zip(new, files, strict=True):
                copy(source, file)
            for _ in range(4):
                certificate.look()
        assert said(caplog) == ["ERROR"]
        certificate.look()
        assert serial(port) == 2


def _too_many_files(*args: object, **more: object) -> None:
    raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


def test_folders_that_are_exchanged_under_a_link_are_read(
    files: tuple[Path, Path], tmp_path: Path
) -> None:
    """As Kubernetes does with secrets: both files are links through a link, which is replaced."""
    (tmp_path / "..data").symlink_to(files[0].parent)
    linked = tuple(tmp_path / f"link-{file.name}" for file in files)
    for link, file in zip(linked, files, strict=True):
        link.symlink_to(Path("..data", file.name))
    certificate = Certificate(linked[0], linked[1])
    port = Port(certificate.context)
    other = write_certificate(tmp_path / "other", serial=2)[0].parent
    with port.open():
        (tmp_path / "..data_tmp").symlink_to(other)
        (tmp_path / "..data_tmp").rename(tmp_path / "..data")
        certificate.look()
        certificate.look()
        assert serial(port) == 2


def test_the_files_are_looked_at_by_themselves_until_the_server_ends(
    files: tuple[Path, Path], tmp_path: Path
) -> None:
    certificate = Certificate(*files, look_s=0.01)
    port = Port(certificate.context)
    with certificate, port.open():
        replace(files, tmp_path, 2)
        wait_until(lambda: serial(port) == 2)
    assert not certificate._thread.is_alive()
