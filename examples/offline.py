"""What the orchestrators share: which model they run on, and the proof of what it caches."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from agentkit import Model, ModelRequest
from agentkit.blocks import AssistantMessage, ToolMessage, UserMessage
from agentkit.models import resolve_model
from agentkit.testing import ScriptedModel, Step, assert_prefix_stable
from agentkit.testing.cache import assert_cache
from agentkit.testing.capture import Capture, capture
from agentkit.usage import Usage

Script = Callable[[ModelRequest], Step]


class Scripted(ScriptedModel):
    """A scripted model that can be warmed, as the bundled runtime can."""

    async def warm(self, request: ModelRequest, *, keep_s: float | None) -> Usage:
        """Put a front into the model's cache."""
        return self._cache.count(request)


def arguments(doc: str | None, argv: list[str] | None, **others: str) -> argparse.Namespace:
    """Read the command line: `--model local:smollm2`, `--model anthropic:...`; none is offline.

    Other options take their help text, and are None if they are not given.
    """
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", help="a model string; without it, a script answers, offline")
    for name, text in others.items():
        parser.add_argument(f"--{name}", help=text)
    return parser.parse_args(argv)


def model_of(given: str | None, script: Script) -> Model:
    """Return the model that was asked for; by default one that follows the script."""
    return Scripted(script) if given is None else resolve_model(given)


@contextmanager
def proven(model: Model, **least: float) -> Iterator[Capture]:
    """Run something, and prove what it claims of caches. Prints what each provider would read.

        with proven(model, anthropic=0.85, openai=0.8):
            asyncio.run(...)

    Whatever the model, no request may change what was sent before. Of a scripted one the
    conversations are known beforehand, so the share that each provider's (simulated) cache would
    read is checked, too.
    """
    with capture() as asked:
        yield asked
    assert_prefix_stable(asked)
    if isinstance(model, ScriptedModel):
        for provider, ratio in least.items():
            report = assert_cache(asked, ratio, provider=provider)
            n_tokens = report.total.usage.input_tokens
            print(f"{provider:10} would read {report.hit_ratio:.0%} of {n_tokens:,} tokens")


def turns_of(request: ModelRequest) -> int:
    """For scripts: how many turns the model has made since the user spoke last."""
    turns = 0
    for message in reversed(request.context.messages):
        if isinstance(message, UserMessage):
            break
        turns += isinstance(message, AssistantMessage)
    return turns


def said_to(request: ModelRequest) -> str:
    """For scripts: what the user, or who gave the task, has said last."""
    users = [m.text for m in request.context.messages if isinstance(m, UserMessage)]
    return users[-1]


def results_of(request: ModelRequest) -> list[str]:
    """For scripts: the results of all calls of the conversation."""
    answers = [m for m in request.context.messages if isinstance(m, ToolMessage)]
    return [result.content for answer in answers for result in answer.results]
