"""`agentkit fake-provider` as a process, and what importing agentkit does not load."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import httpx2
import pytest
from typer.testing import CliRunner

from agentkit import Agent
from agentkit.cli import app
from agentkit.models import resolve_model
from agentkit.models.hosted.model import HostedModel
from agentkit.models.hosted.resolve import EXAMPLES

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("as_json", [False, True])
def test_it_serves_until_it_is_interrupted_and_then_says_what_it_served(as_json: bool) -> None:
    command = [sys.executable, "-m", "agentkit", "fake-provider", "--port", "0"]
    if as_json:
        command.append("--json")
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        try:
            first = process.stderr.readline()
            url = first.split("fake provider at ")[1].split(" ")[0]
            response = httpx2.post(
                f"{url}/v1/chat/completions",
                json={"model": "gpt-6-sol", "messages": [{"role": "user", "content": "/say hi"}]},
                headers={"authorization": "Bearer any"},
                timeout=30,
            )
        finally:
            process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=30)
    assert response.json()["choices"][0]["message"]["content"] == "hi"
    assert process.returncode == 0
    if as_json:
        assert json.loads(output)["totals"][0]["requests"] == 1
    else:
        assert "openai:gpt-6-sol" in output


def test_each_model_string_that_it_shows_works_against_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    command = [sys.executable, "-m", "agentkit", "fake-provider", "--port", "0"]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        try:
            banner = "".join(_until(process.stderr, "/fail"))
            for variable in re.findall(r"(\w+_API_KEY)=any", banner):
                monkeypatch.setenv(variable, "any")
            strings = re.findall(r"^  ([\w-]+:http\S+#\S+)", banner, re.MULTILINE)
            assert asyncio.run(_say_hello(strings)) == ["hello"] * len(strings)
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=30)
    prefixes = {string.partition(":")[0] for string in strings}
    assert prefixes == {example.partition(":")[0] for example in EXAMPLES} - {
        *("anthropic", "openai", "gemini"),  # by variables of their clients
        "alibaba",  # has no simulator
    }


async def _say_hello(strings: list[str]) -> list[str]:
    answers = []
    for string in strings:
        model = resolve_model(string)
        assert isinstance(model, HostedModel)
        answers.append((await Agent(model=model, name="caller").run("/say hello")).output)
        await model.aclose()
    return answers


def _until(lines: Iterable[str], text: str) -> Iterator[str]:
    for line in lines:
        yield line
        if text in line:
            return


@pytest.mark.parametrize(
    ("switch", "says"),
    [
        ("nothing=1", "no switch 'nothing'; there are: openai_lookup"),
        ("openai_lookup=nowhere", "it can be: guide, sdk"),
        ("openai_reads_earlier_endings=maybe", "it can be: true, false"),
    ],
)
def test_switches_that_do_not_exist_are_named_with_those_that_do(switch: str, says: str) -> None:
    result = CliRunner().invoke(app, ["fake-provider", "--switch", switch])
    assert result.exit_code == 2
    assert says in result.output


def test_a_taken_address_is_named() -> None:
    result = CliRunner().invoke(app, ["fake-provider", "--host", "203.0.113.1"])
    assert result.exit_code == 1
    assert "cannot listen on 203.0.113.1:8322" in result.output


def test_importing_agentkit_loads_neither_the_command_line_nor_the_fake() -> None:
    code = (
        "import sys, agentkit\n"
        "print({'typer', 'starlette', 'uvicorn', 'agentkit.cli', 'agentkit.fake'} "
        "& set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True
    )
    assert done.stdout.strip() == "set()"


def test_help_is_there_for_each_command() -> None:
    for command in ("fake-provider", "plan"):
        result = CliRunner().invoke(app, [command, "--help"])
        assert result.exit_code == 0
