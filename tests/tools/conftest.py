"""A folder with everything that can be in a folder."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentkit_tools._root import Root


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A file outside the root, which nothing may ever show."""
    outside = tmp_path / "outside"
    outside.mkdir()
    file = outside / "secret.txt"
    file.write_text("TOP SECRET\n")
    return file


@pytest.fixture
def folder(tmp_path: Path, secret: Path) -> Path:
    """The root: texts, subfolders, links out and in, a pipe, a socket, a binary."""
    root = tmp_path / "root"
    (root / "notes" / "deep").mkdir(parents=True)
    (root / "a.txt").write_text("one\ntwo\r\nthree\n")
    (root / "notes" / "b.md").write_text("# Title\n\nA line about tea.\nNo end of line", newline="")
    (root / "notes" / "deep" / "c.md").write_text("Deep tea.\n")
    (root / "notes" / "grüße 🎈.txt").write_text("Grüße aus Köln\n", encoding="utf-8")
    (root / "binary.bin").write_bytes(b"GIF89a\0\1\2")
    (root / "empty.txt").write_text("")
    (root / "file_link").symlink_to(secret)
    (root / "folder_link").symlink_to(secret.parent)
    (root / "inner_link").symlink_to("notes")
    (root / "dangling").symlink_to("nowhere")
    os.mkfifo(root / "pipe")
    with socket.socket(socket.AF_UNIX) as made:
        here = os.getcwd()
        # A socket's path must be short: bind it by a relative one.
        os.chdir(root)
        try:
            made.bind("socket")
        finally:
            os.chdir(here)
    return root


@pytest.fixture
def root(folder: Path) -> Iterator[Root]:
    with Root(folder) as opened:
        yield opened
