"""From a chat request to the prompt's text and token ids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from agentkit_runtime.chat import ChatMessage, ChatRequest, ChatTool
from agentkit_runtime.errors import RequestRejected
from agentkit_runtime.text.front import (
    NO_FRONT,
    CheckedTools,
    Front,
    check_tool_texts,
    checked_prefill,
    checked_texts,
    copied_tools,
    marked_messages,
    noncharacters_in,
    tools_key,
)
from agentkit_runtime.text.message_order import (
    with_system_in_front,
    with_system_in_user,
    with_users_joined,
)
from agentkit_runtime.text.reasoning import opens_reasoning, reasoning_tags
from agentkit_runtime.text.recent import Recent
from agentkit_runtime.text.request_text import content_bytes
from agentkit_runtime.text.template import TEMPLATE_OPTIONS, ChatTemplate
from agentkit_runtime.text.tokenizer import Tokenizer
from agentkit_runtime.text.told_messages import ToldMessages
from agentkit_runtime.text.tool_formats import ToolFormat, tool_format_for
from agentkit_runtime.text.tool_prompt import with_tools
from agentkit_runtime.text.trust import free_mark

_KEPT_TOOLSETS = 32
"""Toolsets that are shown in the same order, and not checked again, when they come back."""


@dataclass(frozen=True, slots=True)
class Boundary:
    """A place next to a special token, where text and ids can both be cut."""

    n_chars: int
    """Characters of `Rendered.marked_text` before the cut."""
    n_ids: int
    """Ids before the cut."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendered:
    """A prompt."""

    text: str
    """What the chat template makes of the request."""
    marked_text: str
    """The same with `escape` inside texts from outside that look like special tokens. Two prompts
    with equal `marked_text` and `escape` have equal ids; with equal `text` they may not."""
    escape: str | None
    """The character that marks; None if nothing had to be marked."""
    ids: tuple[int, ...]
    boundaries: tuple[Boundary, ...]
    """Rising; the last one is the end of the prompt."""
    warnings: tuple[str, ...] = ()
    """What had to be moved or left out because the template or the vocabulary cannot say it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A prompt's text, and what a longer request can begin with."""

    marked_text: str
    """See `Rendered.marked_text`."""
    escape: str | None
    """See `Rendered.escape`."""
    front: Front
    warnings: tuple[str, ...]


class Renderer:
    """Renders requests for one model. Thread-safe; what it remembers changes no result.

    A template without tool support gets the tools in the first system message, or as lines where it
    has a place for them, calls as text in `tool_format`, and results as plain messages of role
    `tool`; where it does not know that role, as user messages. Strings from outside never become
    special tokens.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        template: ChatTemplate,
        tool_format: ToolFormat | None = None,
    ) -> None:
        self.tokenizer = tokenizer
        self.template = template
        self.traits = template.traits
        self.tool_format = tool_format or tool_format_for(template)
        self._told = ToldMessages(self.traits, self.tool_format)
        self._used_by_template = noncharacters_in([template.source])
        self._tools: Recent[tuple[str, str], CheckedTools] = Recent(_KEPT_TOOLSETS)

    def render(self, request: ChatRequest, *, add_generation_prompt: bool = True) -> Rendered:
        """Render a request.

        Raises `RequestRejected` for requests without messages, text that is not Unicode, tools with
        equal names, and messages that the template refuses.
        """
        written = self.write(request, add_generation_prompt=add_generation_prompt)
        text, escape = written.marked_text, written.escape
        plain = text if escape is None else text.replace(escape, "")
        ids: list[int] = []
        boundaries: list[Boundary] = []
        for piece in self.tokenizer.split_rendered(text, escape, tenant=request.tenant):
            ids.extend(piece.ids)
            boundaries.append(Boundary(piece.end, len(ids)))
        return Rendered(
            text=plain,
            marked_text=text,
            escape=escape,
            ids=tuple(ids),
            boundaries=tuple(boundaries),
            warnings=(*written.warnings, *self.losses(plain)),
        )

    def write(
        self, request: ChatRequest, known: Front = NO_FRONT, *, add_generation_prompt: bool = True
    ) -> Written:
        """The prompt's text, without ids. Raises as `render`.

        `known` is the `front` of an earlier request whose messages this one begins with; they are
        not looked at again.
        """
        if not request.messages:
            raise RequestRejected("there are no messages; give at least one", field="messages")
        self._check_options(request.template_options)
        tools = self._checked_tools(request)
        used = tools.noncharacters | checked_prefill(request.prefill)
        front, mark = self._front(request.messages, known, used)
        warnings: list[str] = []
        shown_tools = tools.marked(mark, self.tokenizer.marker)
        messages = self._arranged(front.shown, shown_tools, warnings)
        values = front.values
        text = self.template.render(
            [values.get(id(message)) or self._told.message(message) for message in messages],
            tools=self._told.tools(shown_tools),
            add_generation_prompt=add_generation_prompt,
            options={**request.template_options, **self._told.tool_lines(shown_tools)},
        )
        prefill = request.prefill if add_generation_prompt else ""
        if prefill:
            self._require_no_thinking(text)
        needs_mark = tools.needs_mark or self.tokenizer.marker.needs_mark(prefill)
        return Written(
            marked_text=text + self.tokenizer.marker.mark(prefill, mark),
            escape=mark if needs_mark else front.mark,
            front=front,
            warnings=tuple(warnings),
        )

    def _require_no_thinking(self, text: str) -> None:
        """Refuse a given beginning where the prompt has begun the reply's thinking."""
        tags = reasoning_tags(self.template.source)
        if tags is not None and opens_reasoning(text, tags):
            raise RequestRejected(
                "this model thinks before it answers, so its answer cannot begin as given; switch "
                "thinking off, or leave the answer's beginning out",
                field="prefill",
            )

    def losses(self, text: str) -> tuple[str, ...]:
        """A warning if the vocabulary cannot write all of `text`."""
        if not self.tokenizer.loses_text(text):
            return ()
        return ("some control characters have no token in this model and were left out",)

    def _check_options(self, options: Mapping[str, bool | str]) -> None:
        for name in options:
            if name not in TEMPLATE_OPTIONS or not self.template.mentions([name]):
                known = [option for option in TEMPLATE_OPTIONS if self.template.mentions([option])]
                raise RequestRejected(
                    f"this model's chat template has no option {name!r}; known: "
                    f"{', '.join(known) or 'none'}",
                    field="template_options",
                )

    def _checked_tools(self, request: ChatRequest) -> CheckedTools:
        """The request's tools, in the order in which its tenant gave them first.

        Clients that keep objects in hash maps send other orders each time, and mean the same.
        """
        text = tools_key(request.tools)
        # By tenant: neither the order nor the time must tell anybody about the tools of others.
        key = None if text is None else (request.tenant, text)
        known = None if key is None else self._tools.get(key)
        if known is None:
            known = check_tool_texts(request.tools, self.tokenizer.marker)
            if key is not None:
                # Copied: the caller may change what is remembered.
                known = replace(known, tools=copied_tools(known.tools))
                self._tools.put(key, known)
        return known

    def _front(
        self, messages: tuple[ChatMessage, ...], known: Front, used_by_tools: frozenset[str]
    ) -> tuple[Front, str]:
        """Check and mark what is new; the mark is one that no text of the request has."""
        n_known = len(known.messages)
        new = self._told.unescaped(messages[n_known:])
        used = known.noncharacters | checked_texts(new, n_known)
        mark = free_mark(used | used_by_tools | self._used_by_template)
        if known.mark not in (None, mark):
            return self._front(messages, NO_FRONT, used_by_tools)
        marked, needs_mark = marked_messages(new, mark, self.tokenizer.marker)
        shown = self._told.shown(marked)
        front = Front(
            messages=messages,
            n_bytes=known.n_bytes + content_bytes(new),
            noncharacters=used,
            mark=mark if needs_mark else known.mark,
            shown=(*known.shown, *shown),
            values={**known.values, **{id(m): self._told.message(m) for m in shown}},
        )
        return front, mark

    def _arranged(
        self, shown: Sequence[ChatMessage], tools: Sequence[ChatTool], warnings: list[str]
    ) -> list[ChatMessage]:
        """Messages that this template can render."""
        messages = list(shown)
        if not self.traits.supports_mid_system:
            messages = with_system_in_front(messages, warnings)
        if tools and not (self.traits.supports_tools or self.traits.lists_tools):
            messages = self._with_tools_as_text(messages, tools)
        if not self.traits.supports_system:
            messages = with_system_in_user(messages, warnings)
        return messages if self.traits.supports_repeated_user else with_users_joined(messages)

    def _with_tools_as_text(
        self, messages: Sequence[ChatMessage], tools: Sequence[ChatTool]
    ) -> list[ChatMessage]:
        has_system = messages[0].role == "system"
        system = with_tools(messages[0].content if has_system else "", tools, self.tool_format)
        return [ChatMessage(role="system", content=system), *messages[int(has_system) :]]
