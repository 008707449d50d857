"""Which models were pulled, with the SHA-256 of each of their files, and whether they still are so.

One JSON file for each model, in `manifests` below the storage root. Files of the hub lie where its
own client keeps them, as links to blobs that are named by what the hub says of them: the SHA-256 of
large files, git's SHA-1 of small ones
(https://huggingface.co/docs/huggingface_hub/guides/manage-cache). So what the hub said is checked
without asking it again.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from agentkit_runtime.errors import ModelNotFound
from agentkit_runtime.loading.builtin import BUILTIN_MODELS
from agentkit_runtime.loading.hashing import file_sha256
from agentkit_runtime.loading.home import model_folder, storage_root
from agentkit_runtime.loading.hub_cache import remove_files
from agentkit_runtime.loading.model_files import ModelFiles, is_duplicate
from agentkit_runtime.spelling import or_meant

_PARTS = ("*.safetensors", "*.json", "*.jinja")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_GIT_SHA1 = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptFile:
    """A file as it was when it was pulled."""

    path: str
    bytes: int
    mtime_ns: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """A model that was pulled."""

    model: str
    """As it was asked for; a path is absolute."""
    files: tuple[KeptFile, ...]

    @property
    def bytes(self) -> int:
        """Of all files."""
        return sum(file.bytes for file in self.files)


def keep(model: str, files: ModelFiles, home: Path | None = None) -> Manifest:
    """Hash all files of a model and write that down; not those that are as they were last time.

    Raises:
        ModelNotFound: a file of the hub is not what the hub says it is.
    """
    name = _name(model)
    path = _manifest_path(name, home)
    before = _read(path)
    known = {} if before is None else {file.path: file for file in before.files}
    kept = tuple(_kept(file, known.get(str(file.absolute()))) for file in _all_files(files))
    manifest = Manifest(model=name, files=kept)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    temporary.write_text(json.dumps(asdict(manifest), indent=1) + "\n", encoding="utf-8")
    os.replace(temporary, path)
    return manifest


def pulled(home: Path | None = None) -> list[Manifest]:
    """All that was pulled, by name. A manifest that cannot be read is left out."""
    folder = storage_root(home) / "manifests"
    found = [_read(path) for path in sorted(folder.glob("*.json"))]
    return sorted((one for one in found if one is not None), key=lambda one: one.model)


def manifest_of(model: str, home: Path | None = None) -> Manifest:
    """What is known of a model that was pulled. Raises ModelNotFound for others."""
    found = _read(_manifest_path(_name(model), home))
    if found is None:
        near = or_meant(model, [one.model for one in pulled(home)])
        raise ModelNotFound(
            f"{model!r} was not pulled{near} `agentkit-runtime pull --list` shows what was, "
            "`pull MODEL` pulls another"
        )
    return found


def problems(manifest: Manifest) -> list[str]:
    """What is no longer as it was pulled, a line each. Reads every byte."""
    return [problem for file in manifest.files if (problem := _problem(file)) is not None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Removed:
    """What a removal did."""

    freed_bytes: int
    stays: Literal["nothing", "own", "shared"]
    """Files that were given by a path are somebody's `own`; those of the hub may be `shared` with
    another model or revision."""


def remove(model: str, home: Path | None = None) -> Removed:
    """Delete a model that was pulled, and forget it. Raises ModelNotFound for others."""
    manifest = manifest_of(model, home)
    if manifest.model in BUILTIN_MODELS:
        shutil.rmtree(model_folder(manifest.model, home), ignore_errors=True)
        removed = Removed(freed_bytes=manifest.bytes, stays="nothing")
    elif Path(manifest.model).is_absolute():
        removed = Removed(freed_bytes=0, stays="own")
    else:
        removed = _removed_from_hub_cache(manifest, home)
    _manifest_path(manifest.model, home).unlink(missing_ok=True)
    return removed


def _removed_from_hub_cache(manifest: Manifest, home: Path | None) -> Removed:
    others = {file.path for one in pulled(home) if one != manifest for file in one.files}
    files = [file for file in manifest.files if file.path not in others]
    freed = remove_files([Path(file.path) for file in files])
    return Removed(freed_bytes=freed, stays="nothing" if freed >= manifest.bytes else "shared")


def _all_files(files: ModelFiles) -> Iterator[Path]:
    yield from files.weights
    if files.tokenizer.is_dir():
        weights = set(files.weights)
        for pattern in _PARTS:
            for path in sorted(files.tokenizer.glob(pattern)):
                if path not in weights and not is_duplicate(path.name):
                    yield path


def _kept(path: Path, before: KeptFile | None) -> KeptFile:
    stat = path.stat()
    if before is not None and (before.bytes, before.mtime_ns) == (stat.st_size, stat.st_mtime_ns):
        return before
    sha256 = file_sha256(path)
    if not _is_what_the_hub_says(path, sha256):
        raise ModelNotFound(
            f"{path} is not what the hub says it is; remove it and pull again: rm {path.resolve()}"
        )
    return KeptFile(
        path=str(path.absolute()), bytes=stat.st_size, mtime_ns=stat.st_mtime_ns, sha256=sha256
    )


def _is_what_the_hub_says(path: Path, sha256: str) -> bool:
    """Whether a file of the hub's cache has the hash that its blob is named by; else True."""
    blob = path.resolve()
    if blob.parent.name != "blobs" or not path.is_symlink():
        return True
    if _SHA256.fullmatch(blob.name):
        return blob.name == sha256
    if _GIT_SHA1.fullmatch(blob.name):
        content = blob.read_bytes()
        head = f"blob {len(content)}\0".encode()
        return hashlib.sha1(head + content, usedforsecurity=False).hexdigest() == blob.name
    return True


def _problem(file: KeptFile) -> str | None:
    path = Path(file.path)
    if not path.is_file():
        return f"{path} is gone"
    size = path.stat().st_size
    if size != file.bytes:
        return f"{path} has {size} bytes and not {file.bytes}"
    if file_sha256(path) != file.sha256:
        return f"{path} has not the SHA-256 {file.sha256}"
    return None


def _name(model: str) -> str:
    """Paths by where they are, so that they mean the same from everywhere; wheels by their model's
    name."""
    for builtin in BUILTIN_MODELS.values():
        if model in (builtin.name, f"pypi:{builtin.project}"):
            return builtin.name
    path = Path(model).expanduser()
    return str(path.resolve()) if path.exists() or path.is_absolute() else model


def _manifest_path(model: str, home: Path | None) -> Path:
    readable = re.sub(r"[^A-Za-z0-9.-]+", "-", model)[-80:].strip("-.")
    digest = hashlib.sha256(model.encode()).hexdigest()[:12]
    return storage_root(home) / "manifests" / f"{readable}-{digest}.json"


def _read(path: Path) -> Manifest | None:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        files = tuple(KeptFile(**file) for file in document["files"])
        return Manifest(model=document["model"], files=files)
    except (OSError, ValueError, LookupError, TypeError):
        return None
