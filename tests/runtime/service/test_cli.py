"""The command line: what it refuses, what it says, how it ends."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import get_args

import httpx2
import pytest
from typer.testing import CliRunner

from agentkit_runtime import cli, cli_serve
from agentkit_runtime.attention.select import ATTENTION_NAMES
from agentkit_runtime.errors import ModelNotFound
from agentkit_runtime.kv.policy import PolicyName
from agentkit_runtime.load import DType
from agentkit_runtime.local import LocalRuntime
from agentkit_runtime.model.linear import WeightFormat
from tests.runtime.service.scripted import BOUND_S

ROOT = Path(__file__).parents[3]


def run(*arguments: str) -> tuple[int, str]:
    """Exit code, and all that was printed."""
    result = CliRunner().invoke(cli.app, list(arguments))
    return result.exit_code, result.output


def test_help_names_the_commands_and_the_defaults() -> None:
    code, text = run("serve", "--help")

    assert code == 0
    for expected in (
        "smollm2",
        "127.0.0.1",
        "8321",
        "--slots",
        "--threads",
        "--kv-dtype",
        "--disk-cache",
    ):
        assert expected in text


def test_help_needs_no_torch() -> None:
    code = "import sys, agentkit_runtime.cli; sys.exit('torch' in sys.modules)"
    path = os.pathsep.join([str(ROOT / "runtime"), os.environ.get("PYTHONPATH", "")])

    done = subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": path})

    assert done.returncode == 0


def test_the_choices_are_those_of_the_runtime() -> None:
    assert get_args(cli_serve.DType) == get_args(DType)
    assert set(get_args(cli_serve.Weights)) == set(WeightFormat)
    assert get_args(cli_serve.Attention) == ATTENTION_NAMES
    assert {*get_args(cli_serve.Eviction), "hints"} == set(get_args(PolicyName))


def test_every_option_reaches_the_runtime(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    loaded: dict[str, object] = {}

    def load(spec: str, **options: object) -> None:
        loaded.update(options, spec=spec)
        raise ModelNotFound("as far as this")

    monkeypatch.setattr(LocalRuntime, "load", load)
    run(
        *("serve", "model", "--port", "0", "--slots", "64", "--threads", "1", "--device", "cpu"),
        *("--dtype", "bfloat16", "--weights", "int8", "--adapter", str(tmp_path)),
        *("--kv-dtype", "fp8", "--attention", "sdpa", "--eviction", "slru"),
        *("--host-cache", "2kB", "--disk-cache", str(tmp_path), "--disk-cache-size", "3KiB"),
    )

    assert loaded == {
        "spec": "model",
        "max_slots": 64,
        "threads": 1,
        "device": "cpu",
        "dtype": "bfloat16",
        "weights": "int8",
        "adapter": tmp_path,
        "kv_dtype": "fp8",
        "attention": "sdpa",
        "eviction": "slru",
        "host_cache_bytes": 2_000,
        "disk_cache": tmp_path,
        "disk_cache_bytes": 3_072,
    }


@pytest.mark.parametrize("command", ["serve", "pull"])
def test_a_model_that_does_not_exist_ends_with_one_line(command: str) -> None:
    port = ["--port", "0"] if command == "serve" else []

    code, text = run(command, "/no/such/model.gguf", *port)

    assert code == 1
    assert text.splitlines()[-1].startswith("error: ")
    assert "/no/such/model.gguf" in text
    assert "Traceback" not in text


def test_a_taken_port_is_said_before_the_model_is_loaded() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, text = run("serve", "/no/such/model.gguf", "--port", str(port))

    assert code == 1
    assert f"cannot listen on 127.0.0.1:{port}" in text
    assert "loading" not in text


@pytest.mark.parametrize(
    ("host", "warns"), [("127.0.0.1", False), ("localhost", False), ("0.0.0.0", True)]
)
def test_an_address_that_others_can_reach_is_warned_about(host: str, warns: bool) -> None:
    _, text = run("serve", "/no/such/model.gguf", "--port", "0", "--host", host)

    assert ("there is no authentication yet" in text) == warns


@pytest.mark.parametrize(
    "arguments",
    [
        ("--port", "70000"),
        ("--threads", "0"),
        ("--slots", "-1"),
        ("--kv-dtype", "int3"),
        ("--host-cache", "much"),
        ("--disk-cache-size", "much"),
        ("--weights", "int3"),
        ("--dtype", "int8"),
        ("--attention", "none"),
        ("--eviction", "hints"),
        ("--adapter", "/no/such/folder"),
        ("--port", "0", "--device", "abacus"),
        ("--nonsense",),
    ],
)
def test_wrong_usage_ends_with_code_2(arguments: tuple[str, ...]) -> None:
    code, _ = run("serve", *arguments)

    assert code == 2


def test_a_missing_extra_is_named_with_its_install_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)

    code, text = run("serve", "--port", "0")

    assert code == 1
    assert "'uvicorn'" in text
    assert 'pip install "agentkit-radix[runtime]"' in text


def test_pull_says_where_the_model_is(smollm2_gguf: Path) -> None:
    code, text = run("pull", str(smollm2_gguf))

    assert code == 0
    assert str(smollm2_gguf) in text.replace("\n", "")


def test_serve_answers_until_it_is_interrupted(smollm2_gguf: Path) -> None:
    """The real command in its own process, with the real model, from start to Ctrl-C."""
    command = [sys.executable, "-m", "agentkit_runtime", "serve", str(smollm2_gguf)]
    options = ["--port", "0", "--slots", "256", "--threads", "1"]
    path = os.pathsep.join([str(ROOT / "runtime"), os.environ.get("PYTHONPATH", "")])
    with subprocess.Popen(
        [*command, *options],
        env={**os.environ, "PYTHONPATH": path},
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            url = _announced_url(process)
            models = httpx2.get(f"{url}/models", timeout=BOUND_S).json()["data"]
            process.send_signal(signal.SIGINT)
            _, rest = process.communicate(timeout=BOUND_S)
        finally:
            process.kill()

    assert str(smollm2_gguf) in [model["id"] for model in models]
    assert (process.returncode, rest.splitlines()[-1]) == (0, "stopped")
    assert "Traceback" not in rest


def _announced_url(process: subprocess.Popen[str]) -> str:
    assert process.stderr is not None
    said = []
    for line in process.stderr:  # ends when the process does
        said.append(line)
        if line.startswith("serving "):
            return line.split(" at ")[1].split()[0]
    raise AssertionError(f"the server never said where it listens: {''.join(said)}")
