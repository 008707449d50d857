"""The pytest plugin, in test suites of its own."""

from __future__ import annotations

import pytest

pytest_plugins = ["pytester"]


@pytest.fixture(autouse=True)
def suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """A suite whose warnings are errors, as in many projects."""
    for name in ("CI", "AGENTKIT_RECORD", "AGENTKIT_FORBID_REAL_CALLS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "")
    pytester.makeini(INI)


INI = """
[pytest]
asyncio_mode = auto
asyncio_default_fixture_loop_scope = function
filterwarnings = error
addopts = --strict-markers -p no:cacheprovider
"""
AGENT = """
import httpx2, pytest
from agentkit import Agent
from agentkit.testing import assert_cache, assert_prefix_stable

def agent(model):
    return Agent(model=model, name="desk", rules="Be brief. " * 900)
"""


def test_runs_are_captured_and_scripts_must_be_consumed(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        AGENT
        + """
def test_sync(scripted_model):
    result = agent(scripted_model(["a"])).run_sync("?")
    assert_prefix_stable(result)
    assert_cache(result, 0.0)

async def test_async(scripted_model):
    model = scripted_model(["a", "b"])
    first = await agent(model).run("?")
    again = await agent(model).run("?", context=first.context)
    assert_prefix_stable([first, again])
    assert_cache([first, again], 0.45)

def test_too_few(scripted_model):
    agent(scripted_model(["a", "b"])).run_sync("?")

def test_too_many(scripted_model):
    with pytest.raises(AssertionError):
        agent(scripted_model([])).run_sync("?")

def test_that_fails_says_no_more(scripted_model):
    scripted_model(["a"])
    assert False, "the reason"
"""
    )
    result = pytester.runpytest()
    result.assert_outcomes(passed=4, failed=1, errors=2)
    result.stdout.fnmatch_lines(["*UnconsumedSteps: 1 steps left for any agent*"])
    result.stdout.fnmatch_lines(["*UnconsumedSteps: call 1, by agent 'desk', has no step*"])


REAL_CALLS = (
    AGENT
    + """
from anthropic import AsyncAnthropic
from agentkit.models.hosted.anthropic import AnthropicAdapter
from agentkit.models.hosted.model import HostedModel

URL = "https://api.anthropic.invalid/"

def test_client():
    with httpx2.Client() as http:
        http.get(URL + "?key=secret")

async def test_hosted():
    async with AsyncAnthropic(api_key="any", base_url=URL) as client:
        await agent(HostedModel(AnthropicAdapter("claude-sonnet-5-5", client=client))).run("?")

@pytest.mark.allow_real_calls
def test_allowed():
    with httpx2.Client() as http, pytest.raises(httpx2.ConnectError):
        http.get(URL)

def test_this_machine():
    with httpx2.Client() as http, pytest.raises(httpx2.ConnectError):
        http.get("http://127.0.0.1:1/")
"""
)


def test_real_calls_can_be_forbidden(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They fail at once: the vendor's client and the loop would try again for seconds."""
    pytester.makepyfile(REAL_CALLS)
    monkeypatch.setenv("AGENTKIT_FORBID_REAL_CALLS", "1")
    result = pytester.runpytest()
    result.assert_outcomes(failed=2, passed=2)
    result.stdout.fnmatch_lines(
        [
            "*RealCallForbidden: GET https://api.anthropic.invalid/: real calls are forbidden*",
            "*RealCallForbidden: POST https://api.anthropic.invalid/v1/messages: real calls*",
        ]
    )


def test_a_suite_may_forbid_all_but_some_hosts(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
import httpx2, pytest

def get(host):
    with httpx2.Client() as http:
        http.get(f"https://{host}/")

def test_allowed():
    with pytest.raises(httpx2.ConnectError):
        get("api.allowed.invalid")

def test_forbidden():
    get("allowed.invalid")
"""
    )
    hosts = "agentkit_allowed_hosts =\n    *.allowed.invalid\n"
    pytester.makeini(INI + "agentkit_forbid_real_calls = true\n" + hosts)
    pytester.runpytest().assert_outcomes(failed=1, passed=1)


def test_calls_of_any_client_are_forbidden_and_local_ones_are_not(
    pytester: pytest.Pytester,
) -> None:
    pytester.makepyfile(
        """
import asyncio, socket, urllib.request, pytest
from agentkit.testing.wire.forbidden import RealCallForbidden
from agentkit.testing.wire.sockets import open_sockets

def test_urllib(forbid_real_calls):
    with pytest.raises(RealCallForbidden, match="a look-up of example.invalid: real calls"):
        urllib.request.urlopen("http://example.invalid")

def test_asyncio(forbid_real_calls):
    with pytest.raises(RealCallForbidden, match="a look-up of example.invalid"):
        asyncio.run(asyncio.open_connection("example.invalid", 80))

@pytest.mark.parametrize("method", ["connect", "connect_ex"])
def test_an_address(forbid_real_calls, method):
    with socket.socket() as it, pytest.raises(RealCallForbidden, match="to 192.0.2.1:80"):
        getattr(it, method)(("192.0.2.1", 80))

def test_local(forbid_real_calls):
    with socket.create_server(("127.0.0.1", 0)) as server:
        socket.create_connection(("localhost", server.getsockname()[1])).close()

def test_what_is_recorded_is_called(forbid_real_calls):
    with open_sockets(), pytest.raises(socket.gaierror):
        urllib.request.socket.getaddrinfo("example.invalid", 80)
    with pytest.raises(RealCallForbidden):
        socket.getaddrinfo("example.invalid", 80)
"""
    )
    pytester.runpytest("-W", "ignore::pytest.PytestUnraisableExceptionWarning").assert_outcomes(
        passed=6
    )


def test_it_can_be_left_out(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_it(scripted_model): pass")
    result = pytester.runpytest("-p", "no:agentkit")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*fixture 'scripted_model' not found*"])


def test_it_costs_other_suites_little(pytester: pytest.Pytester) -> None:
    """No vendor's SDK, no HTTP client and no engine is imported for a test that uses nothing."""
    pytester.makepyfile(
        """
import sys

def test_it():
    heavy = {"anthropic", "openai", "google.genai", "torch", "httpx2", "sqlalchemy", "mcp"}
    assert not heavy & set(sys.modules)
"""
    )
    pytester.runpytest_subprocess("-p", "no:asyncio", "-c", "/dev/null").assert_outcomes(passed=1)


def test_nothing_is_recorded_in_ci(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makepyfile("def test_it(): pass")
    monkeypatch.setenv("CI", "true")
    result = pytester.runpytest("--agentkit-record=new")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*in CI*"])
    monkeypatch.setenv("CI", "")
    monkeypatch.setenv("AGENTKIT_RECORD", "often")
    result = pytester.runpytest()
    result.stderr.fnmatch_lines(["*must be one of*'often'*"])
