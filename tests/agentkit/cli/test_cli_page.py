"""docs/cli.md: its commands print what the page shows."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import httpx2
import pytest
from anthropic import AsyncAnthropic
from typer.testing import CliRunner

from agentkit.cli import app
from agentkit.fake import FakeProvider
from agentkit.models.hosted.anthropic import AnthropicAdapter
from agentkit.models.hosted.model import HostedModel

PAGE = (Path(__file__).parents[3] / "docs" / "cli.md").read_text("utf-8")
CODE = "\n".join(re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL))
COMMANDS = re.findall(r"^    \$ agentkit (.*)\n((?:    .*\n|\n(?=    [^$]))*)", PAGE, re.MULTILINE)


def same(text: str) -> list[str]:
    """The text without what differs from run to run: ids, times, and the padding around them."""
    text = re.sub(r"\b[0-9a-f]{12,32}\b", "ID", text)
    text = re.sub(r"\d[\d,.]* (ms|s)\b", r"N \1", text)
    text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d", "DATE", text)
    lines = (" ".join(line.split()) for line in text.splitlines())
    return [re.sub("─+", "─", line) for line in lines if line]


def test_the_commands_print_what_the_page_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(COMMANDS) == 7
    (tmp_path / "desk.py").write_text(CODE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "desk", raising=False)
    monkeypatch.setenv("AGENTKIT_JOURNAL", str(tmp_path / "runs.db"))
    import desk  # type: ignore[import-not-found]

    http = httpx2.AsyncClient(transport=FakeProvider().transport(), timeout=None)
    client = AsyncAnthropic(api_key="k", base_url="http://fake", http_client=http)
    assert desk.Desk.model == "anthropic:claude-sonnet-5-5"
    desk.Desk.model = HostedModel(AnthropicAdapter("claude-sonnet-5-5", client=client))

    run_id = ""
    for command, shown in COMMANDS:
        actual = re.sub(r"\b[0-9a-f]{8}\b", run_id[:8], command)
        result = CliRunner().invoke(app, shlex.split(actual))
        assert same(result.output) == same(shown), command
        if ids := re.findall(r"\b[0-9a-f]{32}\b", result.output):
            run_id = ids[0]
            assert result.exit_code == (3 if "waits" in result.output else 0)


def test_every_command_is_listed() -> None:
    names = [command.name or command.callback.__name__ for command in app.registered_commands]  # type: ignore[union-attr]
    for name in (*names, "mcp"):
        assert f"    agentkit {name.replace('_', '-')} " in PAGE, name
