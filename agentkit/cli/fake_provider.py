"""`agentkit fake-provider`: serves the simulated caches to the official SDKs."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Annotated

import typer

from agentkit.cli.failures import fail, failures_as_exit_codes, say
from agentkit.cli.listening import listening_socket, url_of

if TYPE_CHECKING:
    from socket import socket

    from agentkit.caching.policy import Switches
    from agentkit.fake import FakeProvider

_SHUTDOWN_S = 2
"""How long open answers may go on after Ctrl-C."""
_CHAT_STRINGS = (
    ("deepseek", "/deepseek", "deepseek-flash"),
    ("openai-chat", "/v1", "gpt-6.1-sol"),
    ("openrouter", "/openrouter/v1", "anthropic/claude-sonnet-5-5"),
    ("xai", "/xai/v1", "grok-4.7"),
    ("mistral", "/mistral/v1", "mistral-large-4"),
    ("groq", "/groq/v1", "openai/gpt-oss-120b"),
    ("moonshot", "/moonshot/v1", "kimi-k3"),
    ("vllm", "/vllm/v1", "org/model"),
    ("sglang", "/sglang/v1", "org/model"),
    ("trtllm", "/trtllm/v1", "org/model"),
)
"""What is shown for each API of OpenAI's kind: prefix, path and a model."""


def fake_provider(
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")
    ] = 8322,
    first_byte_ms: Annotated[
        int,
        typer.Option(
            min=0,
            help="From a request to the first byte of its response. What a request writes can be "
            "read from then on, so with 0 parallel requests read more than they would.",
        ),
    ] = 50,
    switch: Annotated[
        list[str] | None,
        typer.Option(
            help="Another reading of the documentation, e.g. openai_lookup=sdk; can be repeated. "
            "Fields and values: agentkit.caching.policy.Switches."
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the ledger as JSON at the end.")
    ] = False,
) -> None:
    """Serve the APIs of Anthropic, OpenAI, DeepSeek and Gemini over simulated caches.

    No model, no network, no key. The ledger, at /__ledger__ and at the end, says what was read and
    written, what it would cost, and why the cache missed.
    """
    with failures_as_exit_codes():
        fake = _fake(first_byte_ms / 1_000, _switches(switch or []))
        with listening_socket(host, port) as listener:
            say(_instructions(url_of(listener)))
            _serve(fake, listener)
        typer.echo(json.dumps(fake.ledger(), indent=2) if as_json else fake.report())


def _serve(fake: FakeProvider, listener: socket) -> None:
    import uvicorn

    config = uvicorn.Config(fake.app, log_level="warning", timeout_graceful_shutdown=_SHUTDOWN_S)
    # uvicorn raises the interrupt again after a clean shutdown; here it is the normal end.
    with contextlib.suppress(KeyboardInterrupt):
        uvicorn.Server(config).run(sockets=[listener])


def _fake(first_byte_s: float, switches: Switches) -> FakeProvider:
    from dataclasses import replace

    from agentkit.fake import Ask, Failure, FakeProvider, Reply, obey

    def respond(ask: Ask) -> Reply | Failure:
        reply = obey(ask)
        return replace(reply, first_byte_s=first_byte_s) if isinstance(reply, Reply) else reply

    return FakeProvider(respond=respond, switches=switches)


def _switches(given: list[str]) -> Switches:
    """Read `name=value` pairs."""
    from agentkit.caching.policy import Switches

    values: dict[str, object] = {}
    for text in given:
        name, _, value = text.partition("=")
        default = getattr(Switches(), name, None)
        if default is None:
            known = ", ".join(Switches.__dataclass_fields__)
            fail(f"no switch {name!r}; there are: {known}", code=2)
        try:
            if isinstance(default, bool):
                values[name] = {"true": True, "false": False}[value.lower()]
            else:
                values[name] = type(default)(value)
        except (KeyError, ValueError):
            choices = getattr(type(default), "__members__", None)
            known = ", ".join(each.value for each in choices.values()) if choices else "true, false"
            fail(f"switch {name} cannot be {value!r}; it can be: {known}", code=2)
    return Switches(**values)  # type: ignore[arg-type]


def _instructions(url: str) -> str:
    strings = [
        (f"{prefix}:{url}{path}#{model}", _key_of(prefix)) for prefix, path, model in _CHAT_STRINGS
    ]
    width = max(len(string) for string, _ in strings)
    listed = "\n".join(f"  {string:<{width}}  {key}".rstrip() for string, key in strings)
    return f"""\
fake provider at {url} (Ctrl-C stops). Any text is an API key; each key has caches of its own.

  Anthropic   ANTHROPIC_BASE_URL={url}      ANTHROPIC_API_KEY=any
  OpenAI      OPENAI_BASE_URL={url}/v1      OPENAI_API_KEY=any
  Gemini      GOOGLE_GEMINI_BASE_URL={url}  GEMINI_API_KEY=any

With these, anthropic:..., openai:... and gemini:... go here. For others the URL is a part of
agentkit's model string, from `:` to `#`; OpenAI's client takes it as base_url:

{listed}

  ledger      {url}/__ledger__              ?format=text for people

The model says "ok". A line of the user's text tells it more: /say TEXT, /think TEXT,
/call TOOL {{"json": "arguments"}}, /fail STATUS [RETRY_AFTER].
"""


def _key_of(prefix: str) -> str:
    """Return what to set for the key, empty for servers that have none."""
    from agentkit.models.hosted.openai_chat.profiles import PROFILES

    variable = PROFILES["openai" if prefix == "openai-chat" else prefix].key_variable
    return f"{variable}=any" if variable else ""
