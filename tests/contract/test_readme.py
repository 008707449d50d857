"""What README says works as it stands there."""

from __future__ import annotations

import inspect
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from typer.testing import CliRunner

from agentkit_runtime import cli
from agentkit_runtime.local import LocalRuntime

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")


BLOCKS: list[str] = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def block_with(text: str) -> str:
    """The one program that has this text in it."""
    (found,) = (block for block in BLOCKS if text in block)
    return found


def run(block: str, **environment: str) -> str:
    """Run a block as a program of its own; returns what it prints."""
    paths = [str(ROOT), str(ROOT / "runtime"), str(ROOT / "tools")]
    front = f"import sys; sys.path[:0] = {paths!r}\nimport torch; torch.set_num_threads(1)\n"
    done = _python("-W", "error", "-c", front + block, environment=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def shown(command: str) -> list[str]:
    """The lines that README shows under a command, without those that stand for others."""
    text = README.split(f"    $ {command}\n")[1]
    indented = [
        line for line in _until_prose(text.splitlines()) if line.strip() not in ("", "...", "^C")
    ]
    assert len(indented) > 5
    return [line.strip() for line in indented]


def test_the_example_runs_and_answers(smollm2_gguf: Path) -> None:
    printed = run(block_with("class Desk"))
    assert "4.50" in printed.splitlines()[0]
    assert re.search(r"total +2 ", printed)


def test_the_longer_program_runs_and_its_tasks_have_typed_answers(smollm2_gguf: Path) -> None:
    printed = run(block_with("class Lead"))
    assert re.match(r"path='.*' heading='.*'\npath='.*' heading='.*'\n", printed)
    assert len(re.findall(r"total +\d", printed)) == 2


def test_the_hosted_program_pays_what_the_page_shows_at_the_fake_provider() -> None:
    with fake_provider() as fake:
        printed = run(
            block_with("class Clerk"), ANTHROPIC_BASE_URL=fake.url, ANTHROPIC_API_KEY="any"
        )
    assert re.search(r"total +1 .* 9\d\.\d%", printed)
    for line in shown("agentkit fake-provider"):
        assert line.replace("http://127.0.0.1:8322", fake.url) in fake.printed


def test_the_plan_is_the_one_that_the_page_shows() -> None:
    (command,) = re.findall(r"^    \$ agentkit (plan .+)$", README, re.MULTILINE)
    done = _python("-m", "agentkit", *command.split())
    assert done.returncode == 0, done.stderr
    for line in shown(f"agentkit {command}"):
        assert line in done.stdout


def test_the_options_of_a_local_model_are_options_of_the_runtime() -> None:
    block = block_with("kv_dtype")
    given = set(re.findall(r"^    (\w+)=", block, re.MULTILINE))
    assert given
    assert given <= set(inspect.signature(LocalRuntime.load).parameters)
    run(block)


def test_the_runtime_s_commands_have_the_options_that_it_names() -> None:
    commands = re.findall(r"^    agentkit-runtime (\S+) ([^#\n]*)", README, re.MULTILINE)
    assert {command for command, _ in commands} == {"serve", "kv-plan"}
    for command, options in commands:
        shown = CliRunner().invoke(cli.app, [command, "--help"], env={"COLUMNS": "200"}).output
        assert set(re.findall(r"--[a-z-]+", options)) <= set(re.findall(r"--[a-z-]+", shown))


def test_the_make_targets_it_names_exist() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    assert set(re.findall(r"^    make ([a-z]+)", README, re.MULTILINE)) <= targets
    ran = set(
        re.findall(r"^make ([a-z]+)", (ROOT / ".ci" / "run").read_text("utf-8"), re.MULTILINE)
    )
    assert {"test", "demo", "lint"} <= ran


def test_every_path_of_its_tree_exists() -> None:
    tree = README.split("## Where things are")[1].split("## Develop")[0]
    base = ROOT
    for line in tree.splitlines():
        match = re.match(r"^    (  )?((?:[\w/.]+ )+) ", line + " ")
        if match is None:
            continue
        for name in match[2].split():
            if not re.fullmatch(r"[\w/]+(/|\.py|\.md)", name):
                continue
            if match[1] is None:
                base = ROOT / name
                assert base.exists(), name
            else:
                assert (base / name).exists(), f"{base.name}/{name}"


class _Fake:
    """A running `agentkit fake-provider`."""

    def __init__(self, first_line: str) -> None:
        self.url = first_line.split()[3]
        self.printed = first_line


@contextmanager
def fake_provider() -> Iterator[_Fake]:
    """Start the command, and interrupt it at the end; `printed` then has all that it said."""
    command = [sys.executable, "-m", "agentkit", "fake-provider", "--port", "0"]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            fake = _Fake(process.stderr.readline())
            yield fake
            process.send_signal(signal.SIGINT)
            code = process.wait(timeout=60)
            fake.printed += process.stderr.read() + process.stdout.read()
            assert code == 0, fake.printed
        finally:
            process.kill()


def _python(
    *arguments: str, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        timeout=250,
    )


def _until_prose(lines: list[str]) -> Iterator[str]:
    for line in lines:
        if line and not line.startswith("    "):
            return
        yield line
