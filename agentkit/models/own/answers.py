"""What the runtime answers, in the framework's words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from agentkit.errors import ModelError
from agentkit.events import (
    ModelEnd,
    ModelEvent,
    TextDelta,
    ToolCallArguments,
    ToolCallStarted,
    UsageEvent,
    VendorItemEvent,
)
from agentkit.models.own.reply_ids import ids_json
from agentkit.usage import Timing, Usage
from agentkit_runtime import chat
from agentkit_runtime.types import RequestStats


def translate(
    event: chat.ChatEvent, label: str, *, another_may_answer: bool
) -> Iterator[ModelEvent]:
    """Return what an event of the runtime says in the framework's words.

    The ids of an answer are kept with its message, for the requests that follow.

    Args:
        event: of the answer.
        label: what errors call the model.
        another_may_answer: whether an answer that was given up (a server that stops, for example)
            is worth asking for again.

    Raises:
        ModelError: the event says that the request failed.
    """
    match event:
        case chat.ContentDelta():
            yield TextDelta(event.text)
        case chat.ReasoningDelta():
            pass  # not asked for: thinking is told as text here
        case chat.ToolCallStart():
            yield ToolCallStarted(index=event.index, id=event.id, name=event.name)
        case chat.ToolCallArguments():
            yield ToolCallArguments(index=event.index, text=event.text)
        case chat.ChatFinished():
            yield _usage(event.stats)
            if event.reason == "abort" or event.reason == "error":
                raise ModelError(
                    f"the engine of {label} ended the request: {event.error or event.reason}",
                    retryable=another_may_answer and event.reason == "abort",
                )
            if event.token_ids:
                yield VendorItemEvent(source=label, data=ids_json(event.token_ids))
            yield ModelEnd(event.reason)
        case _:
            assert_never(event)


def _usage(stats: RequestStats) -> UsageEvent:
    return UsageEvent(
        usage=Usage(
            input_tokens=stats.prompt_tokens,
            cache_read_tokens=stats.cached_tokens,
            # The runtime keeps whatever it computes in its tree.
            cache_write_tokens=stats.prompt_tokens - stats.cached_tokens,
            output_tokens=stats.completion_tokens,
        ),
        timing=Timing(ttft_s=stats.ttft_s, total_s=stats.total_s),
    )
