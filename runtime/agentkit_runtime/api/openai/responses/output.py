"""`ChatEvent`s -> the items of a response, and the events that tell them one by one.

One accumulator for both ways: a response that is not streamed is the last event of the stream that
nobody sent. The order of events is OpenAI's (API reference, "Streaming events" of Responses): an
item is added, its parts are added, grow and are done, the item is done.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import assert_never

from agentkit_runtime.api.failure import ApiError
from agentkit_runtime.api.openai.encode import finish_reason
from agentkit_runtime.api.openai.responses.calls import GrowingCall, growing_call
from agentkit_runtime.api.openai.responses.events import EventMaker
from agentkit_runtime.api.openai.responses.thinking import carried
from agentkit_runtime.api.openai.responses.tools import CallableTool
from agentkit_runtime.api.openai.responses.usage import (
    encode_usage,
    event_logprobs,
    part_logprobs,
)
from agentkit_runtime.api.openai.responses.wire import (
    CallItem,
    CustomCallItem,
    ItemStatus,
    MessageItem,
    OutputItem,
    ReasoningItem,
    ResponseDocument,
    StreamEvent,
    TextPart,
    ThoughtPart,
)
from agentkit_runtime.api.site import new_id
from agentkit_runtime.chat import (
    ChatEvent,
    ChatFinished,
    ChatMessage,
    ContentDelta,
    ReasoningDelta,
    ToolCallArguments,
    ToolCallStart,
)

_NO_TOOLS: Mapping[str, CallableTool] = MappingProxyType({})


class ResponseOutput(EventMaker):
    """The output of one response while it grows."""

    def __init__(
        self,
        response: ResponseDocument,
        callables: Mapping[str, CallableTool] = _NO_TOOLS,
        *,
        carries_thinking: bool = False,
    ) -> None:
        """The output at its beginning.

        Args:
            response: what is to grow.
            callables: the request's tools, by the names that the model knows.
            carries_thinking: whether the client wants a form of the thinking that it can send back.
        """
        super().__init__(response)
        self._carries_thinking = carries_thinking
        self._callables = callables
        self._calls: list[GrowingCall] = []

    @property
    def reply(self) -> ChatMessage:
        """What was said, as the next request's history has it."""
        output = self.response["output"]
        return ChatMessage(
            role="assistant",
            content="".join(
                part["text"]
                for item in output
                if item["type"] == "message"
                for part in item["content"]
            ),
            reasoning="".join(
                part["text"]
                for item in output
                if item["type"] == "reasoning"
                for part in item["content"]
            ),
            tool_calls=tuple(call.in_history for call in self._calls),
        )

    def begin(self) -> list[StreamEvent]:
        """The events before anything is generated."""
        return [self._whole("response.created"), self._whole("response.in_progress")]

    def queue(self) -> list[StreamEvent]:
        """The events of a response that is not begun at once."""
        self.response["status"] = "queued"
        return [self._whole("response.created"), self._whole("response.queued")]

    def go_on(self) -> list[StreamEvent]:
        """The events of a queued response that is generated now."""
        self.response["status"] = "in_progress"
        return [self._whole("response.in_progress")]

    def add(self, event: ChatEvent, now_s: int) -> list[StreamEvent]:
        """The events that a chat event adds; `now_s` is the time, in Unix seconds."""
        match event:
            case ContentDelta():
                return self._text(event)
            case ReasoningDelta():
                return self._thought(event)
            case ToolCallStart():
                return self._call(event)
            case ToolCallArguments():
                return self._arguments(event)
            case ChatFinished():
                return self._finish(event, now_s)
            case _:
                assert_never(event)

    def _text(self, event: ContentDelta) -> list[StreamEvent]:
        events: list[StreamEvent] = []
        item = self._open
        if item is None or item["type"] != "message":
            item = MessageItem(
                type="message",
                id=new_id("msg_"),
                role="assistant",
                status="in_progress",
                content=[],
            )
            events += self._begin_item(item)
            item["content"].append(
                TextPart(type="output_text", text="", annotations=[], logprobs=[])
            )
            events.append(self._part("response.content_part.added", item["content"][0]))
        part = item["content"][0]
        logprobs = part_logprobs(event.logprobs)
        part["text"] += event.text
        part["logprobs"] += logprobs
        delta = self._in_part("response.output_text.delta")
        delta["delta"] = event.text
        delta["logprobs"] = event_logprobs(logprobs)
        return [*events, delta]

    def _thought(self, event: ReasoningDelta) -> list[StreamEvent]:
        events: list[StreamEvent] = []
        item = self._open
        if item is None or item["type"] != "reasoning":
            item = ReasoningItem(
                type="reasoning", id=new_id("rs_"), status="in_progress", summary=[], content=[]
            )
            events += self._begin_item(item)
            item["content"].append(ThoughtPart(type="reasoning_text", text=""))
            events.append(self._part("response.content_part.added", item["content"][0]))
        item["content"][0]["text"] += event.text
        delta = self._in_part("response.reasoning_text.delta")
        delta["delta"] = event.text
        return [*events, delta]

    def _call(self, event: ToolCallStart) -> list[StreamEvent]:
        call = growing_call(event, self._callables)
        events = self._begin_item(call.item)
        self._calls.append(call)
        return events

    def _arguments(self, event: ToolCallArguments) -> list[StreamEvent]:
        assert self._open is not None, "arguments follow the start of their call"
        return self._more_of_call(self._calls[-1].add(event.text))

    def _more_of_call(self, text: str) -> list[StreamEvent]:
        if not text:
            return []
        delta = self._in_item(f"{self._calls[-1].event_kind}.delta")
        delta["delta"] = text
        return [delta]

    def _begin_item(self, item: OutputItem) -> list[StreamEvent]:
        events = self._end_item("completed")
        self._open = item
        self.response["output"].append(item)
        return [*events, self._item("response.output_item.added")]

    def _end_item(self, status: ItemStatus) -> list[StreamEvent]:
        item = self._open
        if item is None:
            return []
        if item["type"] != "custom_tool_call":
            item["status"] = status
        events: list[StreamEvent] = []
        if item["type"] == "function_call" or item["type"] == "custom_tool_call":
            events += self._end_call(item)
        elif item["type"] == "message":
            done = self._in_part("response.output_text.done")
            done["text"] = item["content"][0]["text"]
            done["logprobs"] = event_logprobs(item["content"][0]["logprobs"])
            events += [done, self._part("response.content_part.done", item["content"][0])]
        else:
            thinking = item["content"][0]["text"]
            if self._carries_thinking:
                item["encrypted_content"] = carried(thinking)
            done = self._in_part("response.reasoning_text.done")
            done["text"] = thinking
            events += [done, self._part("response.content_part.done", item["content"][0])]
        events.append(self._item("response.output_item.done"))
        self._open = None
        return events

    def _end_call(self, item: CallItem | CustomCallItem) -> list[StreamEvent]:
        call = self._calls[-1]
        last = self._more_of_call(call.end())
        done = self._in_item(f"{call.event_kind}.done")
        if item["type"] == "function_call":
            done["arguments"] = item["arguments"]
        else:
            done["input"] = item["input"]
        return [*last, done]

    def _finish(self, finished: ChatFinished, now_s: int) -> list[StreamEvent]:
        try:
            is_cut = finish_reason(finished) == "length" and self.response["output"] != []
        except ApiError as failure:
            return self.fail(failure)
        events = self._end_item("incomplete" if is_cut else "completed")
        self.response["usage"] = encode_usage(finished)
        if finished.reason == "length" and finished.stats.completion_tokens:
            self.response["status"] = "incomplete"
            self.response["incomplete_details"] = {"reason": "max_output_tokens"}
            return [*events, self._whole("response.incomplete")]
        self.response["status"] = "completed"
        self.response["completed_at"] = now_s
        return [*events, self._whole("response.completed")]

    def cancel(self, finished: ChatFinished) -> list[StreamEvent]:
        """The last events of a response that was cancelled. There is none that says so."""
        events = self._end_item("incomplete")
        self.response["status"] = "cancelled"
        self.response["usage"] = encode_usage(finished)
        return events

    def fail(self, failure: ApiError) -> list[StreamEvent]:
        """The last event of a response that failed after it began."""
        events = self._end_item("incomplete")
        self.response["status"] = "failed"
        self.response["error"] = {"code": "server_error", "message": failure.message}
        return [*events, self._whole("response.failed")]
