"""Loading: what cannot work is said before it is tried, in words."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from agentkit_runtime.errors import RuntimeFault
from agentkit_runtime.load import EngineOptions, build_core, load_engine
from agentkit_runtime.model.decoder import Decoder

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dtype": "int3"}, "dtype must be one of"),
        ({"max_slots": 0}, "max_slots must be between 1"),
        ({"threads": -1}, "threads must be between 1"),
    ],
)
def test_bad_options_are_refused_at_construction(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        EngineOptions(**options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("device", "message"), [("banana", "one that torch knows"), ("cuda", "no CUDA here")]
)
def test_a_device_that_is_not_there_is_named_before_a_model_is_read(
    device: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ValueError, match=message):
        load_engine("no/such-model", EngineOptions(device=device))


def test_flashinfer_without_cuda_is_refused_before_a_model_is_read() -> None:
    with pytest.raises(ValueError, match="needs a CUDA device, and this is cpu"):
        load_engine("no/such-model", EngineOptions(device="cpu", attention="flashinfer"))


def test_a_pool_that_does_not_fit_says_how_large_it_would_be(decoder: Decoder) -> None:
    with pytest.raises(RuntimeFault, match=r"10\d* slots needs .* GB.*fewer slots"):
        build_core(decoder, n_slots=10**14)


def test_a_program_that_ends_while_tokens_are_generated_ends_cleanly(smollm2_gguf: Path) -> None:
    """Regression: the engine thread was torn out of a torch operator, and the process aborted."""
    program = f"""
import asyncio, sys
sys.path.insert(0, {str(ROOT / "runtime")!r})
from agentkit_runtime.chat import ChatMessage, ChatRequest
from agentkit_runtime.local import LocalRuntime
runtime = LocalRuntime.load({str(smollm2_gguf)!r}, threads=1, max_slots=2000)
async def begin():
    request = ChatRequest(messages=(ChatMessage(role="user", content="Count to a thousand."),))
    stream = runtime.chat(request)
    await anext(stream)
    return stream
stream = asyncio.new_event_loop().run_until_complete(begin())
print("left")
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=200
    )
    assert done.stdout.strip() == "left"
    assert done.returncode == 0, done.stderr
    assert "terminate" not in done.stderr
