"""The python server: what a model sees, in both protocol eras and as a process."""

from __future__ import annotations

import asyncio
import os
import sys

import pytest
from mcp import Client, StdioServerParameters

from agentkit_tools._errors import Refused
from agentkit_tools._sandbox import Sandbox
from agentkit_tools.python import PythonTools, build_server, main
from tests.tools.programs import has_namespaces, interpreter, marked, sleeping, within
from tests.tools.started import TOOLS_FOLDER, assert_ends_with_stdin

pytestmark = pytest.mark.timeout(90)


@pytest.fixture
def sandbox() -> Sandbox:
    isolation = "namespaces" if has_namespaces() else "limits"
    return Sandbox(isolation=isolation, interpreter=interpreter(isolation))


def ended(code: int, sandbox: Sandbox) -> str:
    hint = "" if sandbox.isolation == "namespaces" else "; limited, not isolated"
    return f"[exit code {code}{hint}]"


async def test_an_answer_has_the_end_the_outputs_and_the_files(sandbox):
    answer = await PythonTools(sandbox).run_python(
        "print('hello')\n"
        "import sys; print('\\udcff\\x1b[0m', file=sys.stderr)\n"
        "open('a.txt', 'w').write('text\\n'); open('new\\nline', 'w')\n"
        "sys.exit('bad')\n",
        show_files=["a.txt"],
    )
    assert answer.splitlines() == [
        ended(1, sandbox),
        "--- stdout",
        "hello",
        "--- stderr",
        "\\udcff\x1b[0m",
        "bad",
        "--- files",
        "a.txt  5 bytes",
        "new\\nline  0 bytes",
        "--- a.txt",
        "text",
    ]
    assert await PythonTools(sandbox).run_python("pass") == ended(0, sandbox)


async def test_many_files_and_long_texts_are_cut(sandbox):
    answer = await PythonTools(sandbox).run_python(
        "for n in range(80): open(f'{n:03}', 'w').write('y' * 50_000)\nprint('x' * 1_000_000)",
        show_files=["000", "001", "002"],
    )
    assert "[30 more]" in answer
    assert "bytes left out" in answer
    assert "[cut here]" in answer
    assert len(answer) < 38_000


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_the_tool_is_the_same_in_both_protocol_eras(sandbox, mode):
    async with asyncio.timeout(60), Client(build_server(sandbox), mode=mode) as client:
        (tool,) = (await client.list_tools()).tools
        assert tool.name == "run_python"
        assert tool.input_schema["required"] == ["code"]
        assert tool.input_schema["additionalProperties"] is False
        result = await client.call_tool("run_python", {"code": "print(6 * 7)"})
        assert result.content[0].text == f"{ended(0, sandbox)}\n--- stdout\n42"
        for arguments, words in (
            ({"code": ""}, "at least 1 character"),
            ({"code": "x", "timeout_s": 0}, "greater than or equal to 1"),
            ({"code": "x", "timeout_s": 10**9}, "less than or equal to 120"),
            ({"code": "x" * 200_001}, "at most 200000 characters"),
            ({"code": "x", "show_files": ["y"] * 11}, "at most 10 items"),
            ({"code": "x", "show_files": ["y" * 301]}, "at most 300 characters"),
            ({"code": "x", "language": "perl"}, "there is no such argument"),
        ):
            wrong = await client.call_tool("run_python", arguments)
            assert wrong.is_error
            assert words in wrong.content[0].text


async def test_a_tool_says_whether_its_programs_are_isolated():
    described = {}
    for isolation in ("namespaces", "limits"):
        async with Client(build_server(Sandbox(isolation=isolation))) as client:
            (described[isolation],) = (await client.list_tools()).tools
    assert (
        "It has no network, and sees no files but its own." in described["namespaces"].description
    )
    assert described["namespaces"].annotations.destructive_hint is False
    assert "NOT isolated" in described["limits"].description
    assert described["limits"].annotations.destructive_hint is True


async def test_it_serves_over_stdio(sandbox):
    parameters = StdioServerParameters(
        command=sys.executable,
        args=[
            *("-m", "agentkit_tools.python", "--isolation", sandbox.isolation),
            *("--python", sandbox.interpreter.command[0], "--memory", "300"),
        ],
        env={"PYTHONPATH": TOOLS_FOLDER, "SECRET_TOKEN": "do-not-show"},
    )
    async with asyncio.timeout(80), Client(parameters, read_timeout_seconds=60) as client:
        code = "import os; print(sorted(os.environ)); print(os.getpid() and 'on')"
        result = await client.call_tool("run_python", {"code": code})
        assert "SECRET" not in result.content[0].text
        assert result.content[0].text.endswith("on")


async def test_an_answer_says_when_the_program_was_not_isolated():
    unconfined = Sandbox(isolation="limits", interpreter=interpreter("limits"))
    answer = await PythonTools(unconfined).run_python("pass")
    assert answer == "[exit code 0; limited, not isolated]"


def test_it_ends_when_stdin_ends_and_keeps_stdout_clean(sandbox):
    assert_ends_with_stdin(
        "python", "--isolation", sandbox.isolation, "--python", sandbox.interpreter.command[0]
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--python", "/nonexistent"], "'/nonexistent' is no Python that starts"),
        (["--memory", "0"], "memory_bytes must be more than 0, not 0"),
    ],
)
def test_settings_that_make_no_sense_are_said_on_stderr(arguments, words, capsys):
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert words in captured.err


def test_a_system_without_namespaces_is_not_served_with_a_way_out(monkeypatch, capsys):
    async def refuse(sandbox: Sandbox) -> None:
        raise Refused("the program could not be started: unshare: Operation not permitted")

    monkeypatch.setattr(Sandbox, "check", refuse)
    assert main([]) == 2
    assert "--isolation limits does without" in capsys.readouterr().err


async def test_a_call_that_the_client_gives_up_ends_its_program(sandbox):
    mark = f"given-up-{os.getpid()}"
    code = f"import os\n{sleeping(sandbox.isolation, mark)}"
    async with asyncio.timeout(60), Client(build_server(sandbox), mode="legacy") as client:
        call = asyncio.create_task(client.call_tool("run_python", {"code": code, "timeout_s": 100}))
        assert await asyncio.to_thread(within, 30, lambda: marked(mark))
        call.cancel()
        assert await asyncio.to_thread(within, 30, lambda: not marked(mark))
        again = await client.call_tool("run_python", {"code": "print('on')"})
        assert again.content[0].text.endswith("on")
