"""The official client: made when it is needed, with the right key, and closed."""

from __future__ import annotations

import subprocess
import sys

import pytest
import respx
from openai import AsyncOpenAI

from agentkit.errors import ConfigurationError, MissingExtra
from agentkit.folding import fold
from agentkit.models.hosted.openai_chat import (
    DEEPSEEK,
    PROFILES,
    VLLM,
    ChatAdapter,
)
from tests.agentkit.models.hosted.openai_chat.talk import (
    SAID,
    URL,
    adapter,
    collect,
    plan,
    sse,
    turns,
)


async def test_a_key_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-somebody-else")
    monkeypatch.delenv("DEEPSEEK_API_KEY", raising=False)
    api, made = ChatAdapter("deepseek-flash", profile=DEEPSEEK), turns()[0]
    finished = api.body(api.layout(made), plan(), made)  # needs no key

    with pytest.raises(ConfigurationError, match="set DEEPSEEK_API_KEY"):
        await collect(api, finished)


async def test_a_client_that_is_not_installed_is_named_with_its_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "openai", None)
    api, made = ChatAdapter("m", profile=VLLM, base_url="http://127.0.0.1:1/v1"), turns()[0]
    finished = api.body(api.layout(made), plan(), made)  # needs no client

    with pytest.raises(MissingExtra, match=r'pip install -c requirements.lock "\.\[openai\]"'):
        await collect(api, finished)


def test_laying_out_loads_no_client() -> None:
    program = (
        "import sys, agentkit.models.hosted.openai_chat as chat; "
        "chat.ChatAdapter('m', profile=chat.VLLM); "
        "print(sorted({'openai', 'httpx2', 'pydantic'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)

    assert done.stdout == b"[]\n"


async def test_a_self_hosted_server_needs_an_address_and_no_key() -> None:
    api, made = ChatAdapter("m", profile=VLLM), turns()[0]

    with pytest.raises(ConfigurationError, match="pass base_url='http://host:port/v1'"):
        await collect(api, api.body(api.layout(made), plan(), made))


async def test_what_belongs_to_openai_is_not_sent_to_others(
    httpx2_mock: respx.Router, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C85: the client's own environment (key, organisation, project) stays with its vendor."""
    for name in ("OPENAI_API_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"):
        monkeypatch.setenv(name, "openai-secret")
    for profile in PROFILES.values():
        if profile.provider == "openai":
            continue
        if profile.key_variable:
            monkeypatch.setenv(profile.key_variable, "own-key")
        url = profile.base_url or "http://127.0.0.1:1/v1"
        route = httpx2_mock.post(f"{url}/chat/completions").mock(return_value=sse(*SAID))
        api = ChatAdapter("m", profile=profile, base_url=profile.base_url or url)
        made = turns()[0]
        await collect(api, api.body(api.layout(made), plan(), made))
        await api.aclose()

        headers = dict(route.calls.last.request.headers)
        assert "openai-secret" not in str(headers)
        assert headers["authorization"] == (
            "Bearer own-key" if profile.key_variable else "Bearer none"
        )


async def test_a_client_that_was_given_stays_open(httpx2_mock: respx.Router) -> None:
    httpx2_mock.post(URL).mock(return_value=sse(*SAID))
    client = AsyncOpenAI(api_key="k", base_url=URL.removesuffix("/chat/completions"))
    api, made = adapter(client=client), turns()[0]

    await api.aclose()

    assert fold(await collect(api, api.body(api.layout(made), plan(), made))).finish == "stop"
    await client.close()
