"""The folder in which the hub's client keeps files, as it lays it out."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path


class HubCache:
    """CACHE/models--org--name/{refs/main, snapshots/REVISION/file -> blobs/HASH}."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir(parents=True)

    def add(
        self, repository: str, files: Mapping[str, bytes], *, revision: str = "a", ref: str = "main"
    ) -> dict[str, Path]:
        """Put a revision in whose files have these contents; their paths by name."""
        folder = self.root / f"models--{repository.replace('/', '--')}"
        commit = revision * 40
        for part in ("refs", "blobs"):
            (folder / part).mkdir(parents=True, exist_ok=True)
        (folder / "refs" / ref).write_text(commit)
        made = {}
        for name, content in files.items():
            blob = folder / "blobs" / hashlib.sha256(content).hexdigest()
            blob.write_bytes(content)
            made[name] = folder / "snapshots" / commit / name
            made[name].parent.mkdir(parents=True, exist_ok=True)
            made[name].symlink_to(blob)
        return made

    def left(self) -> set[str]:
        """Names of all files and links that are there, blobs by their content."""
        return {
            path.read_text() if path.parent.name == "blobs" else path.name
            for path in self.root.rglob("*")
            if path.is_symlink() or path.is_file()
        }
