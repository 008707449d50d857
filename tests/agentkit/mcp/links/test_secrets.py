"""What a server was given in confidence is in no message, no warning, no log, and no context."""

from __future__ import annotations

import base64
import json
import logging
import sys
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import httpx2
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agentkit.toolset.caller import Caller
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
@example("33=\\\\B", SPELLED[2], "")  # two backslashes, each escaped for a URL
@example('/\\"\\\n33', SPELLED[1], "\\")
@settings(max_examples=60)
def test_a_secret_is_found_however_it_is_spelled(
    secret: str, spelled: Callable[[str], str], before: str
) -> None:
    secrets = ServerSecrets(McpServer(alias="s", command=["x"], env={"KEY": secret}))
    assert spelled(secret) not in secrets.hidden(f"{before}{spelled(secret)} end")


@pytest.mark.parametrize("secret", ["/home/user", "\nsecret", "\\secret", '\\"\\"secret'])
@pytest.mark.parametrize("text", ["\\", '\\"', "\\/", "%5c", "\\u005c"])
def test_a_server_that_repeats_escapes_does_not_hold_up_the_event_loop(
    secret: str, text: str
) -> None:
    secrets = ServerSecrets(McpServer(alias="s", command=["x"], env={"KEY": secret}))
    began_s = time.process_time()
    secrets.hidden(text * (65_536 // len(text)))
    assert time.process_time() - began_s < 1


def test_no_part_of_a_secret_is_left_where_a_text_is_cut() -> None:
    secrets = ServerSecrets(McpServer(alias="s", command=["x"], env={"KEY": "k" * 5 + "EY" * 50}))
    for n_before in range(64 * 1024 - 300, 64 * 1024 + 10, 13):
        assert "EY" not in secrets.hidden("-" * n_before + "k" * 5 + "EY" * 50 + "-" * 99)


ECHO = """
import json, os, sys
for line in sys.stdin:
    request = json.loads(line)
    method = request.get("method")
    answer = {"jsonrpc": "2.0", "id": request.get("id")}
    if method == "initialize":
        answer["result"] = {
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {}, "resources": {}},
            "serverInfo": {"name": "x", "version": "1"},
        }
    elif method == "tools/list":
        answer["result"] = {"tools": [{"name": "env", "inputSchema": {"type": "object"}}]}
    elif method == "tools/call":
        token = request["params"]["_meta"]["progressToken"]
        told = {"progressToken": token, "progress": 1, "message": os.environ["MY_TOKEN"]}
        note = {"jsonrpc": "2.0", "method": "notifications/progress", "params": told}
        print(json.dumps(note), flush=True)
        env = dict(os.environ)
        text = {"type": "text", "text": json.dumps(env)}
        answer["result"] = {"content": [text], "structuredContent": {"env": env, "n": [1]}}
    elif method == "resources/read":
        content = {"uri": "x://env", "text": os.environ["MY_TOKEN"]}
        answer["result"] = {"contents": [content]}
    else:
        continue
    print(json.dumps(answer), flush=True)
"""


class Hearing(Caller):
    """Keeps the words of a server's progress."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def progress(self, progress: float, total: float | None, message: str) -> None:
        self.said.append(message)


async def test_a_result_repeats_no_credential_and_keeps_what_else_the_server_was_given(
    tmp_path: Path,
) -> None:
    path = tmp_path / "echo.py"
    path.write_text(ECHO)
    given = {
        "MY_TOKEN": 'tok-"1234',
        "DATABASE_URL": "postgres://ann:p%40ss-word@db.example/shop",
        "NOTES": str(tmp_path / "notes.db"),
        "KEY_FILE": str(path),
        "API_KEY": "password",
    }
    server = McpServer(
        alias="s", command=[sys.executable, "-S", str(path)], env=given, protocol="legacy"
    )
    caller = Hearing()
    async with server.connect() as connection:
        output = await connection.call("env", {}, caller)
        (part,) = await connection.read_resource("x://env")
    expected = {**given, "MY_TOKEN": "***", "DATABASE_URL": "postgres://ann:***@db.example/shop"}
    assert isinstance(output.structured, dict)
    text, structured = map(json.loads, output.content.splitlines())
    assert output.structured == structured
    for env in (text, structured["env"]):
        assert {name: env[name] for name in given} == expected
    assert (part.text, caller.said) == ("***", ["***"])


@pytest.mark.parametrize(
    ("headers", "said", "shown"),
    [
        ({"Authorization": "Bearer abc-123-def"}, "got abc-123-def", "got ***"),
        ({"Authorization": "Basic YW5uOnMzY3JldC13b3Jk"}, "hi ann, s3cret-word", "hi ann, ***"),
        ({"Cookie": "a=1; sid=abcdefgh1"}, "sid abcdefgh1 of a=1", "sid *** of a=1"),
        ({"X-Api-Key": "k3y-k3y-k3y"}, '{"k3y-k3y-k3y": 1}', '{"***": 1}'),
        ({"X-Tenant": "acme-corp-1", "Accept-Language": "en-US,en"}, "acme-corp-1 en-US,en", None),
        ({"X-Api-Key": "short-1"}, "short-1", None),
        ({"X-Api-Key": "password"}, "the word password", None),
    ],
)
def test_which_headers_are_credentials_that_no_result_repeats(
    headers: dict[str, str], said: str, shown: str | None
) -> None:
    secrets = ServerSecrets(McpServer(alias="s", url="https://x.example/mcp", headers=headers))
    result = {"content": [{"type": "text", "text": said}], "n": 7}
    expected = {"content": [{"type": "text", "text": said if shown is None else shown}], "n": 7}
    assert secrets.out_of_result(result) == expected


def test_what_a_token_was_exchanged_for_is_a_credential_and_depth_is_bounded() -> None:
    secrets = ServerSecrets(McpServer(alias="s", url="https://x.example/mcp"))
    deep: object = "new-token-1"
    for _ in range(5_000):
        deep = [deep]
    assert secrets.out_of_result({"a": deep})["a"] is deep
    secrets.learn_headers({"authorization": "Bearer new-token-1"}, only_credentials=True)
    assert secrets.out_of_result({"a": "new-token-1"}) == {"a": "***"}
    assert "new-token-1" not in repr(secrets.out_of_result({"a": deep}))
