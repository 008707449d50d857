"""The command line: what it refuses, what it says, how it ends."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import get_args

import httpx2
import pytest
from typer.testing import CliRunner

from agentkit_runtime import cli
from agentkit_runtime.attention.select import ATTENTION_NAMES
from agentkit_runtime.cli import serve_options
from agentkit_runtime.errors import ModelNotFound
from agentkit_runtime.governing.gate import GateLimits
from agentkit_runtime.governing.pressure import PressureLimits
from agentkit_runtime.kv.pins import PinQuota
from agentkit_runtime.kv.policy import PolicyName
from agentkit_runtime.load import DType
from agentkit_runtime.local import LocalRuntime
from agentkit_runtime.model.linear import WeightFormat
from agentkit_runtime.routing.options import KEPT_EVENTS, RoutingOptions
from agentkit_runtime.server import run as run_module
from agentkit_runtime.server.access import Access
from agentkit_runtime.server.config import ServerConfig
from agentkit_runtime.tenancy.store import KeyStore
from agentkit_runtime.watching.options import Compat, LogFormat, LogLevel, WatchOptions
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
    assert get_args(serve_options.DTypeName) == get_args(DType)
    assert set(get_args(serve_options.WeightsName)) == set(WeightFormat)
    assert get_args(serve_options.AttentionName) == ATTENTION_NAMES
    assert set(get_args(serve_options.EvictionName)) == set(get_args(PolicyName))
    assert get_args(serve_options.CompatName) == get_args(Compat)
    assert get_args(serve_options.LogFormatName) == get_args(LogFormat)
    assert get_args(serve_options.LogLevelName) == get_args(LogLevel)


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
        *("--pinned-tokens", "5", "--all-pinned-tokens", "9", "--namespace-key", "n.key"),
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
        "pin_quota": PinQuota(per_tenant=5, total=9),
        "namespace_key": Path("n.key"),
        "kv_events": KEPT_EVENTS,
    }


def test_every_other_option_reaches_the_server(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    served: list[ServerConfig] = []
    monkeypatch.setattr(run_module, "run", lambda config, say: served.append(config))
    files = {name: tmp_path / name for name in ("keys.db", "cert.pem", "key.pem")}

    code, text = run(
        *("serve", "m", "--host", "0.0.0.0", "--port", "80", "--keys", str(files["keys.db"])),
        *("--tls-cert", str(files["cert.pem"]), "--tls-key", str(files["key.pem"])),
        *("--cors-origin", "https://a.example", "--cors-origin", "http://b.example:81"),
        *("--max-body", "1MiB", "--max-requests", "7", "--max-waiting", "5"),
        *("--batch-pressure", "0.5", "--drain", "3", "--metrics-compat", "sglang"),
        *("--open-metrics", "--tenant-metrics", "--otel", "--log-format", "json"),
        *("--log-level", "error", "--last-requests", "10"),
        *("--kv-events", "tcp://127.0.0.1:5557", "--kv-events-replay", "tcp://127.0.0.1:5558"),
        *("--kv-events-topic", "kv", "--model-name", "gpt-6", "--model-name", "other"),
    )

    assert code == 0, text
    (config,) = served
    assert (config.model, config.host, config.port) == ("m", "0.0.0.0", 80)
    assert config.model_names == ("gpt-6", "other")
    assert config.access == Access(
        keys=files["keys.db"],
        cors_origins=("https://a.example", "http://b.example:81"),
        tls_cert=files["cert.pem"],
        tls_key=files["key.pem"],
    )
    assert config.limits == GateLimits(
        max_requests=7, batch_pressure=0.5, pressure=PressureLimits(max_waiting=5)
    )
    assert (config.max_body_bytes, config.drain_s) == (1024 * 1024, 3.0)
    assert config.watch == WatchOptions(
        metrics_compat="sglang",
        open_metrics=True,
        tenant_metrics=True,
        otel=True,
        log_format="json",
        log_level="error",
        last_requests=10,
    )
    assert config.routing == RoutingOptions(
        kv_events="tcp://127.0.0.1:5557", replay="tcp://127.0.0.1:5558", topic="kv"
    )


@pytest.mark.parametrize("command", ["serve", "pull"])
def test_a_model_that_does_not_exist_ends_with_one_line(command: str) -> None:
    port = ["--port", "0"] if command == "serve" else []

    code, text = run(command, "/no/such/model.gguf", *port)

    assert code == 1
    assert text.splitlines()[-1].startswith("error: ")
    assert "/no/such/model.gguf" in text
    assert "Traceback" not in text


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("--kv-events", "localhost:5557"), "tcp://HOST:PORT"),
        (("--kv-events-replay", "tcp://127.0.0.1:1"), "--kv-events"),
        (("--kv-events-topic", "kv"), "--kv-events"),
    ],
)
def test_events_for_routers_need_an_address(arguments: tuple[str, ...], named: str) -> None:
    code, text = run("serve", "/no/such/model.gguf", "--port", "0", *arguments)

    assert code == 2
    assert named in text


def test_a_taken_address_of_events_is_said_before_the_model_is_loaded() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"tcp://127.0.0.1:{taken.getsockname()[1]}"
        code, text = run("serve", "/no/such/model.gguf", "--port", "0", "--kv-events", address)

    assert code == 1
    assert address in text
    assert "loading" not in text


def test_a_taken_port_is_said_before_the_model_is_loaded() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, text = run("serve", "/no/such/model.gguf", "--port", str(port))

    assert code == 1
    assert f"cannot listen on 127.0.0.1:{port}" in text
    assert "loading" not in text


@pytest.mark.parametrize(
    ("host", "refused"),
    [("127.0.0.1", False), ("localhost", False), ("0.0.0.0", True), ("::", True), ("box", True)],
)
def test_without_keys_it_listens_where_only_this_machine_reaches_it(
    host: str, refused: bool
) -> None:
    code, text = run("serve", "/no/such/model.gguf", "--port", "0", "--host", host)

    assert code == (2 if refused else 1)
    assert ("--keys FILE" in text and "--insecure-open" in text) == refused


def test_it_can_be_opened_to_everybody_in_so_many_words() -> None:
    code, text = run("serve", "/no/model", "--port", "0", "--host", "0.0.0.0", "--insecure-open")

    assert code == 1
    assert "cannot be found" in text or "/no/model" in text


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
        ("--eviction", "belady"),
        ("--tls-cert", "cert.pem"),
        ("--cors-origin", "*"),
        ("--cors-origin", "https://a.example/path"),
        ("--keys", "k.db", "--insecure-open"),
        ("--max-body", "much"),
        ("--batch-pressure", "1.5"),
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
    assert 'pip install -c requirements.lock ".[runtime]"' in text


def test_pull_says_where_the_model_is(
    smollm2_gguf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENTKIT_HOME", str(tmp_path))
    code, text = run("pull", str(smollm2_gguf))

    assert code == 0
    assert str(smollm2_gguf) in text.replace("\n", "")


def test_serve_answers_until_it_is_interrupted(smollm2_gguf: Path, tmp_path: Path) -> None:
    """The real command in its own process, with the real model and keys, from start to Ctrl-C.

    All lines that it writes are JSON when its log is.
    """
    store = tmp_path / "keys.db"
    with KeyStore(store, create=True) as keys:
        made = keys.add(roles=frozenset({"user"}), tenant="ann", now_s=0.0)
    command = [sys.executable, "-m", "agentkit_runtime", "serve", str(smollm2_gguf)]
    options = ["--port", "0", "--slots", "256", "--threads", "1", "--keys", str(store)]
    options += ["--log-format", "json", "--model-name", "gpt-6"]
    path = os.pathsep.join([str(ROOT / "runtime"), os.environ.get("PYTHONPATH", "")])
    with subprocess.Popen(
        [*command, *options],
        env={**os.environ, "PYTHONPATH": path},
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            url = _announced_url(process)
            refused = httpx2.get(f"{url}/models", timeout=BOUND_S)
            with httpx2.Client(headers={"x-api-key": made.key}, timeout=BOUND_S) as client:
                models = client.get(f"{url}/models").json()["data"]
                answer = client.post(
                    f"{url}/chat/completions",
                    json={
                        "model": models[0]["id"],
                        "messages": [{"role": "user", "content": "Hi"}],
                        "max_tokens": 2,
                    },
                ).json()
            process.send_signal(signal.SIGINT)
            _, rest = process.communicate(timeout=BOUND_S)
        finally:
            process.kill()

    assert models[0]["id"] == "gpt-6" == answer["model"]
    assert str(smollm2_gguf) in [model["id"] for model in models]
    told = [json.loads(line)["message"] for line in rest.splitlines()]
    assert (process.returncode, told[-1]) == (0, "stopped")
    assert "POST /v1/chat/completions 200" in told
    assert refused.status_code == 401
    with KeyStore(store) as keys:  # what was used is saved at the end
        (record,) = keys.records()
        (spent,) = keys.spent(time.strftime("%Y-%m", time.gmtime())).values()
    assert record.used_s is not None
    assert spent == answer["usage"]["total_tokens"] - 1


def _announced_url(process: subprocess.Popen[str]) -> str:
    assert process.stderr is not None
    said = []
    for line in process.stderr:  # ends when the process does
        said.append(line)
        message = str(json.loads(line)["message"])
        if message.startswith("serving "):
            return message.split(" at ")[1].split()[0]
    raise AssertionError(f"the server never said where it listens: {''.join(said)}")
