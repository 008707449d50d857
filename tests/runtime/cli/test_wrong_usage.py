"""What a newcomer types wrongly is told with the value, and with what to type."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from agentkit_runtime.cli import app

WRONG = [
    ("serve --port 99999", 2, "it must be less than or equal to 65535; got '99999'"),
    ("serve --port http", 2, "valid integer, unable to parse string as an integer; got 'http'"),
    ("serve --slots 3", 2, "greater than or equal to 16; got '3'"),
    ("serve --dtype float12", 2, "'--dtype': 'float12' is not one of 'float32', 'bfloat16'"),
    ("serve --disk-cache-size 1GB", 2, "does nothing without --disk-cache: give both"),
    ("serve --max-body 0", 2, "at least one byte, got '0'"),
    ("serve --model-name=", 2, "a name that requests can use, got ''"),
    ("pull", 2, "name a MODEL, such as smollm2, or say --list"),
    ("pull smollm2 --list", 2, "--list takes no MODEL, got 'smollm2'"),
    ("pull junk.gguf", 1, "'junk.gguf' is not a GGUF file (it starts with b'junk'"),
    ("keys add --keys k.db --tenant a --role boss", 2, "'boss' is not one of 'user', 'admin'"),
    ("keys list --keys junk.gguf", 1, "name one that `agentkit-runtime keys add` made"),
    (
        "keys limits --keys k.db --new zoe --tokens-per-minute 0",
        2,
        "--tokens-per-minute: it must be greater than or equal to 1; got '0'",
    ),
    ("kv-plan smollm2 --memory 80", 2, "--memory 80 is 80 bytes"),
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "400")
    monkeypatch.setenv("AGENTKIT_HOME", str(tmp_path / "home"))
    (tmp_path / "junk.gguf").write_bytes(b"junk " * 1_000)
    return tmp_path


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(("typed", "code", "told"), WRONG, ids=[one[0] for one in WRONG])
def test_it_is_told_with_the_value_and_the_fix(typed: str, code: int, told: str) -> None:
    if "k.db" in typed:
        made = CliRunner().invoke(app, ["keys", "add", "--keys", "k.db", "--role", "admin"])
        assert made.exit_code == 0
    done = CliRunner().invoke(app, typed.split(" "))
    assert done.exit_code == code
    assert told in " ".join(done.output.replace("│", " ").split())
    assert "Value error" not in done.output
