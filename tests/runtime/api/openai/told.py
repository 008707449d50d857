"""Ways to ask with the official client, and what was told, in one form for all of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import openai
from openai.types.chat import ChatCompletion
from openai.types.responses import Response

from tests.runtime.api.openai.strict import strictly, unknown_fields

Fields = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """An answer."""

    text: str = ""
    calls: tuple[tuple[str, str], ...] = ()
    end: str = "stop"
    """Why it ended, in the words of Chat Completions."""


def of_completion(completion: ChatCompletion) -> Told:
    (choice,) = completion.choices
    assert completion.usage is not None
    assert completion.usage.total_tokens > 0
    calls = [call.function for call in choice.message.tool_calls or () if call.type == "function"]
    return Told(
        text=choice.message.content or "",
        calls=tuple((call.name, call.arguments) for call in calls),
        end=choice.finish_reason,
    )


def of_response(response: Response) -> Told:
    assert response.usage is not None
    assert response.usage.total_tokens > 0
    calls = [item for item in response.output if item.type == "function_call"]
    end = "tool_calls" if calls else "stop"
    return Told(
        text=response.output_text,
        calls=tuple((call.name, call.arguments) for call in calls),
        end="length" if response.status == "incomplete" else end,
    )


def chat_whole(client: openai.OpenAI, fields: Fields) -> Told:
    raw = client.chat.completions.with_raw_response.create(**fields)
    return of_completion(strictly(ChatCompletion, raw.http_response.json()))


def chat_helper(client: openai.OpenAI, fields: Fields) -> Told:
    options = {"include_usage": True}
    with client.chat.completions.stream(**fields, stream_options=options) as stream:  # type: ignore[arg-type]
        try:
            return of_completion(stream.get_final_completion())
        except openai.LengthFinishReasonError as error:  # how the helper tells it
            return of_completion(error.completion)


async def chat_chunks(client: openai.AsyncOpenAI, fields: Fields) -> Told:
    """Adds up the chunks by hand, as programs without the helper do."""
    text, end, calls, usage = "", "", [], None
    stream = await client.chat.completions.create(
        **fields, stream=True, stream_options={"include_usage": True}
    )
    async for chunk in stream:
        assert not list(unknown_fields(chunk))
        usage = chunk.usage or usage
        for choice in chunk.choices:
            text += choice.delta.content or ""
            end = choice.finish_reason or end
            for call in choice.delta.tool_calls or ():
                if call.id:
                    calls.append(["", ""])
                calls[call.index][0] += call.function.name or ""
                calls[call.index][1] += call.function.arguments or ""
    assert usage is not None
    return Told(text=text, calls=tuple((name, arguments) for name, arguments in calls), end=end)


def response_whole(client: openai.OpenAI, fields: Fields) -> Told:
    with client.responses.with_streaming_response.create(**fields) as raw:
        return of_response(strictly(Response, raw.json()))


def response_helper(client: openai.OpenAI, fields: Fields) -> Told:
    with client.responses.stream(**fields) as stream:
        last = [event for event in stream][-1]  # noqa: C416 (the stream is no list)
    assert last.type in ("response.completed", "response.incomplete")
    return of_response(last.response)


async def response_events(client: openai.AsyncOpenAI, fields: Fields) -> Told:
    """Adds up the events by hand."""
    text, calls, end = "", [], ""
    async for event in await client.responses.create(**fields, stream=True):
        assert not list(unknown_fields(event))
        match event.type:
            case "response.output_text.delta":
                text += event.delta
            case "response.output_item.added" if event.item.type == "function_call":
                calls.append([event.item.name, ""])
            case "response.function_call_arguments.delta":
                calls[-1][1] += event.delta
            case "response.completed" | "response.incomplete":
                end = of_response(event.response).end
            case _:
                pass
    return Told(text=text, calls=tuple((name, arguments) for name, arguments in calls), end=end)


Sync = Callable[[openai.OpenAI, Fields], Told]
Async = Callable[[openai.AsyncOpenAI, Fields], Awaitable[Told]]
CHAT_SYNC: Sequence[Sync] = (chat_whole, chat_helper)
RESPONSE_SYNC: Sequence[Sync] = (response_whole, response_helper)
