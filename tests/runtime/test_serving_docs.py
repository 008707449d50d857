"""docs/serving.md: a newcomer who does what it says sees what it says."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.main import get_command
from typer.testing import CliRunner

from agentkit_runtime.cli import app
from agentkit_runtime.governing.lifecycle import Lifecycle
from agentkit_runtime.local import LocalRuntime
from agentkit_runtime.server.access import Access
from agentkit_runtime.server.config import ServerConfig
from agentkit_runtime.server.parts import assembled
from tests.runtime.api.serving import serving_app

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "serving.md").read_text("utf-8")
URL = "http://127.0.0.1:8321"
COMMANDS: dict[str, Any] = get_command(app).commands  # type: ignore[attr-defined]
BLOCKS = re.findall(
    r"```(python|bash)( keyed)?\n(.*?)```(?:\n\n```text\n(?!\$)(.*?)```)?", PAGE, re.DOTALL
)


def section(heading: str) -> str:
    """The text under a heading of the page."""
    return PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]


Serve = Callable[[Path | None], str]


@pytest.fixture
def serve(smollm2_gguf: Path) -> Iterator[Serve]:
    """Starts a server of the real model, with keys or without; returns its address."""
    torch.set_num_threads(1)
    with ExitStack() as running:
        runtime = LocalRuntime.load(str(smollm2_gguf), max_slots=4096, threads=1)
        running.callback(runtime.close)

        def start(keys: Path | None) -> str:
            config = ServerConfig(model="smollm2", access=Access(keys=keys))
            parts = running.enter_context(
                assembled(runtime.service, config, Lifecycle("ready"), model_ids=["smollm2"])
            )
            url, _ = running.enter_context(serving_app(parts.served))
            return url

        yield start


def run_shell(block: str, folder: Path) -> None:
    """Run a block where this checkout's command is the installed one."""
    command = folder / "bin" / "agentkit-runtime"
    command.parent.mkdir(exist_ok=True)
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m agentkit_runtime "$@"\n', "utf-8")
    command.chmod(0o755)
    path = os.pathsep.join([str(ROOT / "runtime"), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", block],
        cwd=folder,
        env={
            **os.environ,
            "PYTHONPATH": path,
            "PATH": os.pathsep.join([str(command.parent), os.environ["PATH"]]),
        },
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, (block, done.stdout, done.stderr)
    assert '"error"' not in done.stdout, (block, done.stdout)


def test_who_does_what_the_page_says_sees_what_it_says(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert {(kind, keyed != "") for kind, keyed, _, _ in BLOCKS} == {
        ("python", False),
        ("python", True),
        ("bash", False),
        ("bash", True),
    }
    names: dict[str, Any] = {"__name__": "serving_page"}
    open_url, keyed_url = serve(None), ""
    for kind, keyed, code, output in BLOCKS:
        if keyed and not keyed_url:
            keyed_url = serve(tmp_path / "keys.db")
        at_home = code.replace(URL, keyed_url if keyed else open_url)
        if kind == "python":
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile(at_home, "docs/serving.md", "exec"), names)
            assert printed.getvalue() == output, code
        elif shutil.which("curl") or "curl" not in code:
            run_shell(at_home, tmp_path)
    for name in ("client", "claude"):
        names[name].close()


def test_every_option_of_the_server_is_in_the_table() -> None:
    named = set(re.findall(r"`(--[a-z-]+)`", section("All options").split("| command")[0]))
    params = COMMANDS["serve"].params

    assert named == {option for param in params for option in param.opts if "--" in option}


def test_every_command_is_in_the_table() -> None:
    rows = section("All options").split("| command")[1]
    named = set(re.findall(r"`([a-z-]+)`", " ".join(re.findall(r"^\| (`.*?) \|", rows, re.M))))

    assert named == set(COMMANDS)


@pytest.mark.parametrize("block", re.findall(r"\$ agentkit-runtime (.*)", PAGE))
def test_commands_that_only_stand_there_have_the_options_that_they_name(block: str) -> None:
    shown = CliRunner().invoke(app, [block.split()[0], "--help"], env={"COLUMNS": "200"}).output

    assert set(re.findall(r"--[a-z-]+", block)) <= set(re.findall(r"--[a-z-]+", shown))


@pytest.mark.parametrize(("page", "anchor"), re.findall(r"\]\(([\w.]*)#([\w-]+)\)", PAGE))
def test_every_link_has_its_heading(page: str, anchor: str) -> None:
    text = (ROOT / "docs" / page).read_text("utf-8") if page else PAGE
    headings = {
        re.sub(r"[^\w -]", "", line.lstrip("# ").lower()).replace(" ", "-")
        for line in text.splitlines()
        if line.startswith("#")
    }
    assert anchor in headings
