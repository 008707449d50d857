"""The requests that a server makes in the middle of one call, put to who makes the call.

Both protocols end here: what a server of the old one sends by itself, and what one of the modern
protocol sends in place of a result. Everything in a request is the server's and untrusted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from agentkit.blocks import AssistantMessage, Image, Text, UserMessage
from agentkit.toolset.attachments import BadAttachment, image_of
from agentkit.toolset.caller import (
    Accept,
    Caller,
    Declined,
    Question,
    Sampled,
    SamplingRequest,
)
from agentkit.toolset.forms import form_of
from agentkit.toolset.results import encodable

if TYPE_CHECKING:
    from agentkit.toolset.mcp.server import McpServer

_MOST_REQUESTS = 20
"""Of one call. A server that asks more often is told no."""
_MOST_CHARS = 4_000
"""Of a question. A person reads it."""
_MOST_SAMPLED_TOKENS = 4_096
_MOST_SAMPLED_CHARS = 200_000
"""Of a prompt for the model."""
_NOTED_CHARS = 200


class Refused(Exception):
    """A server's request is not answered. The text says why, for the server and the model."""


class Asking:
    """What one call's server asks."""

    def __init__(self, server: McpServer, caller: Caller) -> None:
        self.notes: list[str] = []
        """What the model must know of it beside the result."""
        self.caller = caller
        self._server = server
        self._n_asked = 0

    async def answer(
        self, method: object, params: Mapping[str, object], *, kept: str | None
    ) -> dict[str, object]:
        """Return the answer to a request, as it goes to the server.

        Args:
            method: what is asked for.
            params: of the request.
            kept: see `Caller.ask`.

        Raises:
            Refused: there is none.
            Suspended: not now; see `Caller.ask`.
        """
        self._n_asked += 1
        if self._n_asked > _MOST_REQUESTS:
            raise Refused(f"one call may ask {_MOST_REQUESTS} times at most")
        if method == "elicitation/create" and self._server.elicits:
            return await self._elicit(params, kept)
        if method == "sampling/createMessage" and self._server.samples:
            return await self._sample(params)
        what = _KINDS.get(str(method), f"{method!r:.100}")
        raise Refused(f"the tool asks for {what}, which is not possible here")

    def elicited(
        self, params: Mapping[str, object], answer: Accept | Declined
    ) -> dict[str, object]:
        """Return a person's answer as it goes to the server; a note tells the model of a no."""
        try:
            question = self._question(params)
        except ValueError as error:
            return self._decline(_words(params.get("message"), _NOTED_CHARS), str(error))
        if isinstance(answer, Declined):
            return self._decline(question.text[:_NOTED_CHARS], answer.reason)
        if (problem := question.problem_with(answer.content)) is not None:
            return self._decline(
                question.text[:_NOTED_CHARS], f"the answer does not fit: {problem}"
            )
        accepted: dict[str, object] = {"action": "accept"}
        return accepted if question.form is None else accepted | {"content": dict(answer.content)}

    async def _elicit(self, params: Mapping[str, object], kept: str | None) -> dict[str, object]:
        try:
            question = self._question(params)
        except ValueError as error:
            return self.elicited(params, Declined(str(error)))
        return self.elicited(params, await self.caller.ask(question, kept=kept))

    def _question(self, params: Mapping[str, object]) -> Question:
        text = _words(params.get("message"), _MOST_CHARS)
        if params.get("mode", "form") == "url":
            url = params.get("url")
            if not isinstance(url, str) or urlsplit(url).scheme not in ("http", "https"):
                raise ValueError("the question's URL is none of http or https")
            return Question(server=self._server.alias, text=text, url=_words(url, _MOST_CHARS))
        form = form_of(params.get("requestedSchema"))
        return Question(server=self._server.alias, text=text, form=form)

    def _decline(self, question: str, reason: str) -> dict[str, object]:
        self.notes.append(f"(The tool asked a person {question!r}. There is no answer: {reason}.)")
        return {"action": "decline"}

    async def _sample(self, params: Mapping[str, object]) -> dict[str, object]:
        try:
            request = _sampling_request(self._server.alias, params)
        except ValueError as error:
            raise Refused(f"the tool asks for an answer of the model, but {error}") from error
        match await self.caller.sample(request):
            case Declined(reason=reason):
                raise Refused(f"the tool asks for an answer of the model, but {reason}")
            case Sampled() as said:
                return {
                    "role": "assistant",
                    "content": {"type": "text", "text": said.text},
                    "model": said.model,
                    "stopReason": "maxTokens" if said.is_cut else "endTurn",
                }


def _sampling_request(alias: str, params: Mapping[str, object]) -> SamplingRequest:
    """Read a request for an answer of the model.

    Temperature, preferences for other models and wishes for the conversation's own messages are
    hints that the protocol lets us leave out, and we do.
    """
    messages = params.get("messages")
    if not isinstance(messages, Sequence) or isinstance(messages, str) or not messages:
        raise ValueError("it has no messages")
    if params.get("tools"):
        raise ValueError("it wants tools, which it cannot have")
    system, most = params.get("systemPrompt"), params.get("maxTokens")
    stop = params.get("stopSequences")
    wanted = most if isinstance(most, int) and not isinstance(most, bool) and most > 0 else None
    request = SamplingRequest(
        server=alias,
        messages=tuple(_message(each) for each in messages),
        system=encodable(system) if isinstance(system, str) else "",
        max_tokens=min(wanted or _MOST_SAMPLED_TOKENS, _MOST_SAMPLED_TOKENS),
        stop=tuple(each for each in stop if isinstance(each, str) and each)[:4]
        if isinstance(stop, list)
        else (),
    )
    if len(request.system) + sum(len(each.text) for each in request.messages) > _MOST_SAMPLED_CHARS:
        raise ValueError(f"its prompt is longer than {_MOST_SAMPLED_CHARS:,} characters")
    return request


def _message(message: object) -> UserMessage | AssistantMessage:
    if not isinstance(message, Mapping):
        raise ValueError("one of its messages is none")
    content = message.get("content")
    parts = content if isinstance(content, list) else [content]
    blocks = tuple(_block(part) for part in parts)
    if message.get("role") == "assistant":
        return AssistantMessage(tuple(block for block in blocks if isinstance(block, Text)))
    return UserMessage(blocks)


def _block(part: object) -> Text | Image:
    kind = part.get("type") if isinstance(part, Mapping) else None
    if isinstance(part, Mapping) and kind == "text" and isinstance(part.get("text"), str):
        return Text(encodable(str(part["text"])))
    if isinstance(part, Mapping) and kind == "image":
        try:
            return image_of(part.get("data"))
        except BadAttachment as error:
            raise ValueError(f"it has an image that is none: {error}") from error
    raise ValueError(f"it has content of type {kind!r:.100}")


def _words(value: object, most: int) -> str:
    text = encodable(value) if isinstance(value, str) else ""
    return text if len(text) <= most else f"{text[: most - 3]}..."


_KINDS = {
    "elicitation/create": "input from a person",
    "sampling/createMessage": "an answer of the model",
    "roots/list": "the folders that it may use",
}
