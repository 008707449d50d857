"""Tokens in, tokens out, in this process: the real engine; only what the model says is scripted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch

from agentkit import Agent, RunResult
from agentkit.blocks import AssistantMessage, Text, UserMessage, VendorItem
from agentkit.context import Context
from agentkit.models.base import ModelRequest
from agentkit.models.engines import EngineRegistry, Options
from agentkit.models.local import LocalModel
from agentkit.models.own.encoding import encode
from agentkit.toolset import Toolset
from agentkit_runtime.load_text import load_text
from agentkit_runtime.local import LocalRuntime
from tests.agentkit.models.own_server import NAMESPACE_KEY, tiers_in
from tests.agentkit.models.own_server import Text as Model
from tests.runtime.service.scripted import Pace, Script, scripted_model

ANSWERS = {"How is it": "It is sunny — 7 °C.", "And tomorrow": "Rain, I believe."}


class Clerk(Agent[None, str]):
    """You know the weather of all cities."""

    instructions = "Be honest. " * 30
    max_retries = 0


@dataclass(frozen=True, slots=True)
class Process:
    """What lives as long as a process of a user's."""

    model: LocalModel
    runtime: LocalRuntime

    def ids(self, context: Context) -> tuple[int, ...]:
        """The prompt of a context, as the engine gets it now."""
        asked = ModelRequest(
            context=context, toolset=Toolset(), agent="clerk", run_id="r", request_id="1"
        )
        return self.runtime.service.prepare(encode(asked)).generate.prompt


@contextmanager
def process(text: Model, disk: Path | None = None) -> Iterator[Process]:
    """A process, as after its start; what its model says is spelled letter by letter."""
    pace = Pace(Script(text[0], ANSWERS, by_character=True))
    tiers = None if disk is None else tiers_in(disk)
    with scripted_model(*text, pace, tiers=tiers) as loaded:
        runtime = LocalRuntime(loaded, namespace_key=NAMESPACE_KEY)

        def load(spec: str, options: Options) -> LocalRuntime:
            return runtime

        yield Process(LocalModel("small", registry=EngineRegistry(load)), runtime)


@pytest.fixture(scope="module")
def text(smollm2_gguf: Path) -> Model:
    torch.set_num_threads(1)
    return load_text(smollm2_gguf)


async def test_a_saved_run_goes_on_in_a_process_that_remembers_nothing(
    text: Model, tmp_path: Path
) -> None:
    with process(text, tmp_path) as before:
        first = await Clerk(model=before.model).run("How is it in Zürich?")
        begin = before.ids(first.context)
    saved = RunResult.from_json(first.to_json(), str)
    with process(text, tmp_path) as after:
        assert after.ids(saved.context) == begin
        second = await Clerk(model=after.model).run("And tomorrow?", context=saved.context)

    assert prompt_of(text, saved.context) == begin
    assert prompt_of(text, without_ids(saved.context)) != begin, "tokenising gives others"
    assert second.text == ANSWERS["And tomorrow"]
    first_usage, usage = first.requests[0].usage, second.requests[0].usage
    n_known = (first_usage.input_tokens or 0) + (first_usage.output_tokens or 0)
    # Tiers keep whole blocks: all but what is behind the last one.
    assert n_known - 16 <= (usage.cache_read_tokens or 0) <= n_known


@pytest.mark.parametrize("said", ["It is sunny — 8 °C.", "It is", "", "It is sunny — 7 °C. Yes."])
async def test_an_edited_reply_reads_as_it_was_edited(text: Model, said: str) -> None:
    """Of the ids those are used which read exactly as the message does, and no others."""
    with process(text) as here:
        result = await Clerk(model=here.model).run("How is it in Zürich?")
    *_, last = result.context
    assert isinstance(last.content, AssistantMessage)
    (item,) = [block for block in last.content.blocks if isinstance(block, VendorItem)]
    begun = Context(*(segment.content for segment in result.context.segments[:-1]))
    follows = UserMessage.of("And tomorrow?")
    edited = begun.append(AssistantMessage((Text(said), item)), follows)
    plain = begun.append(AssistantMessage((Text(said),)), follows)

    forged = replace(item, data='{"token_ids":[1,2,3]}')
    lying = begun.append(AssistantMessage((Text(said), forged)), follows)

    wanted = prompt_of(text, plain)
    assert prompt_of(text, lying) == wanted
    assert read(text, prompt_of(text, edited)) == read(text, wanted)
    assert said in read(text, wanted)


def prompt_of(text: Model, context: Context) -> tuple[int, ...]:
    """The prompt of a context in a process that has seen nothing else."""
    with process(text) as new:
        return new.ids(context)


def read(text: Model, ids: tuple[int, ...]) -> str:
    return text[0].decode(ids, skip_special=False)


def without_ids(context: Context) -> Context:
    contents = []
    for segment in context:
        content = segment.content
        if isinstance(content, AssistantMessage):
            kept = tuple(each for each in content.blocks if not isinstance(each, VendorItem))
            content = AssistantMessage(kept)
        contents.append(content)
    return Context(*contents)
