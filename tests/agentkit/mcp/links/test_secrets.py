"""What a server was given in confidence is in no message, no warning, no log, and no context."""

from __future__ import annotations

import base64
import json
import logging
import sys
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentkit.toolset.errors import McpConnectError
from agentkit.toolset.mcp.links.secrets import ServerSecrets
from agentkit.toolset.mcp.server import McpServer

KEY = 'sk-"top/secret+1'

LEAKY = """
import json, os, sys
for line in sys.stdin:
    request = json.loads(line)
    method, key = request.get("method"), os.environ["KEY"]
    answer = {"jsonrpc": "2.0", "id": request.get("id")}
    if method == "initialize":
        if os.environ.get("WHEN") == "start":
            sys.exit("login failed for token " + key)
        answer["result"] = {
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "x", "version": "1"},
        }
    elif method == "tools/list":
        print("debug env", json.dumps({"KEY": key}), flush=True)
        answer["result"] = {
            "tools": [{"name": name, "inputSchema": {"type": "object"}} for name in ("a", "b")]
        }
    elif method == "tools/call" and request["params"]["name"] == "a":
        answer["error"] = {"code": 7, "message": "bad token " + key}
    elif method == "tools/call":
        sys.exit("login failed for token " + key)
    else:
        continue
    print(json.dumps(answer), flush=True)
"""


def leaky(tmp_path: Path, **env: str) -> McpServer:
    path = tmp_path / "leaky.py"
    path.write_text(LEAKY)
    command = [sys.executable, "-S", str(path)]
    given = {"KEY": KEY, **env}
    return McpServer(alias="s", command=command, env=given, protocol="legacy", listing_ttl_s=0)


async def test_what_a_server_prints_of_its_environment_is_hidden(tmp_path: Path) -> None:
    with pytest.raises(McpConnectError) as caught:
        async with leaky(tmp_path, WHEN="start").connect():
            pass
    assert str(caught.value).endswith("its stderr says: login failed for token ***")
    async with leaky(tmp_path).connect() as connection:
        refused = await connection.call("a", {})
        ended = await connection.call("b", {})
        warnings = connection.warnings
    assert "bad token *** (code 7)" in refused.content
    assert "login failed for token ***" in ended.content
    assert "debug env" in str(warnings)
    assert "secret" not in str((refused, ended, warnings))


async def test_inherited_values_are_hidden_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ITS_TOKEN", "inherited-token")
    server = McpServer(alias="s", command=["x"], inherit_env=["ITS_TOKEN"])
    assert ServerSecrets(server).hidden("HOME, inherited-token") == "HOME, ***"


class Signs(httpx2.Auth):
    def auth_flow(self, request: httpx2.Request):  # type: ignore[no-untyped-def]
        request.headers["authorization"] = "Bearer made-by-auth"
        yield request


@pytest.mark.parametrize("transport", ["streamable-http", "sse"])
async def test_no_logger_and_no_error_shows_what_a_url_and_headers_carry(
    transport: str, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(request: httpx2.Request) -> httpx2.Response:
        said = f"{request.url} {dict(request.headers)} {request.headers['authorization'][7:]}"
        error = {"code": -32000, "message": f"not for {said}"}
        return httpx2.Response(500, json={"jsonrpc": "2.0", "id": None, "error": error})

    caplog.set_level(logging.DEBUG)
    async with httpx2.AsyncClient(transport=httpx2.MockTransport(refuse)) as client:
        server = McpServer(
            alias="s",
            url="https://tools.example/mcp?key=url%20secret&region=eu-north",
            transport=transport,  # type: ignore[arg-type]
            headers={"X-Key": "header-secret"},
            auth=Signs(),
            http_client=client,
        )
        with pytest.raises(McpConnectError) as caught:
            async with server.connect():
                pass
    text = f"{caught.value}\n{caplog.text}"
    assert "HTTP Request: " in caplog.text, "it is logged"
    for secret in ("secret", "eu-north", "made-by-auth"):
        assert secret not in text, secret


async def test_loggers_are_left_as_they_were(tmp_path: Path) -> None:
    def filters() -> dict[str, int]:
        known = [name for name in logging.root.manager.loggerDict if name.startswith(NAMES)]
        return {name: len(logging.getLogger(name).filters) for name in known}

    NAMES = ("mcp", "httpx2", "httpcore2", "client", "agentkit.mcp")
    async with leaky(tmp_path).connect():
        assert filters()["client"] == 1
    assert set(filters().values()) == {0}


def test_the_trace_of_a_logged_error_is_hidden_too(caplog: pytest.LogCaptureFixture) -> None:
    secrets = ServerSecrets(McpServer(alias="s", command=["x"], env={"KEY": KEY}))
    logger = logging.getLogger("mcp.client.anything")
    with secrets.kept_from_logs():
        try:
            raise RuntimeError(f"refused {KEY}")
        except RuntimeError:
            logger.exception("it failed")
    logger.error("later %s", "text")
    assert "it failed" in caplog.text
    assert "RuntimeError: refused ***" in caplog.text
    assert KEY not in caplog.text


SPELLED: list[Callable[[str], str]] = [
    str,
    lambda text: json.dumps(text)[1:-1],
    lambda text: quote(text, safe=""),
    lambda text: base64.b64encode(text.encode()).decode(),
    lambda text: text.encode().hex(),
]


@given(
    secret=st.text("aB3-_/+\"\\' é=", min_size=6, max_size=30).filter(
        lambda text: len(set(text)) > 3 and not set(text) & set("*")
    ),
    spelled=st.sampled_from(SPELLED),
    before=st.text("xyz ", max_size=9),
)
@settings(max_examples=60)
def test_a_secret_is_found_however_it_is_spelled(
    secret: str, spelled: Callable[[str], str], before: str
) -> None:
    secrets = ServerSecrets(McpServer(alias="s", command=["x"], env={"KEY": secret}))
    assert spelled(secret) not in secrets.hidden(f"{before}{spelled(secret)} end")


def test_no_part_of_a_secret_is_left_where_a_text_is_cut() -> None:
    secrets = ServerSecrets(McpServer(alias="s", command=["x"], env={"KEY": "k" * 5 + "EY" * 50}))
    for n_before in range(64 * 1024 - 300, 64 * 1024 + 10, 13):
        assert "EY" not in secrets.hidden("-" * n_before + "k" * 5 + "EY" * 50 + "-" * 99)
