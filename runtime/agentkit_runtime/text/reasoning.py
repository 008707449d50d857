"""Separates what a model thinks from what it answers, while the text arrives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, assert_never

from agentkit_runtime.chat import ContentDelta, ReasoningDelta

SPACE = " \t\r\n"


@dataclass(frozen=True, slots=True)
class ReasoningTags:
    """The texts around thinking."""

    opening: str
    closing: str


REASONING_TAGS = (
    ReasoningTags("<think>", "</think>"),
    ReasoningTags("[THINK]", "[/THINK]"),
)
"""DeepSeek R1, Qwen3, SmolLM3 and most others; Magistral."""


def reasoning_tags(template_source: str) -> ReasoningTags | None:
    """The tags that a chat template knows; None for a family that does not think."""
    return next((tags for tags in REASONING_TAGS if tags.closing in template_source), None)


def opens_reasoning(prompt_end: str, tags: ReasoningTags) -> bool:
    """Whether a prompt that ends like this has begun the reply's thinking already."""
    return prompt_end.rstrip(SPACE).endswith(tags.opening)


class ReasoningParser:
    """Turns pieces of generated text into thinking and the rest. One per generation.

    How the text is split makes no difference to what the events add up to. Only a reply's very
    beginning can be thinking: tags in an answer are text. White space next to the tags belongs to
    neither side. Thinking that the end of the text cuts off is thinking.
    """

    def __init__(self, tags: ReasoningTags, *, is_open: bool = False) -> None:
        """`is_open`: the prompt has the opening tag already."""
        self._tags = tags
        self._state: _State = "opened" if is_open else "start"
        self._held = ""

    @property
    def is_thinking(self) -> bool:
        """Whether the text so far ends inside thinking, or between it and the answer."""
        return self._state in ("opened", "thinking", "closed")

    def push(self, text: str) -> list[ReasoningDelta | ContentDelta]:
        """The events that this piece completes."""
        self._held += text
        events: list[ReasoningDelta | ContentDelta] = []
        while self._advance(events):
            pass
        return events

    def finish(self) -> list[ReasoningDelta | ContentDelta]:
        """The events of what was held back."""
        held, self._held = self._held, ""
        match self._state:
            case "start" | "content":
                return [ContentDelta(held)] if held else []
            case "opened" | "thinking":
                held = held.strip(SPACE) if self._state == "opened" else held.rstrip(SPACE)
                return [ReasoningDelta(held)] if held else []
            case "closed":
                return []
            case _:
                assert_never(self._state)

    def _advance(self, events: list[ReasoningDelta | ContentDelta]) -> bool:
        """Take one step; False if more text is needed for the next."""
        if not self._held:
            return False
        match self._state:
            case "start" | "opened":
                return self._read_start()
            case "thinking":
                return self._read_thinking(events)
            case "closed":
                self._held = self._held.lstrip(SPACE)
                if not self._held:
                    return False
                self._state = "content"
                return True
            case "content":
                events.append(ContentDelta(self._held))
                self._held = ""
                return False
            case _:
                assert_never(self._state)

    def _read_start(self) -> bool:
        """The opening tag: what is no tag is content, or thinking where the prompt has begun it."""
        rest = self._held.lstrip(SPACE)
        if rest.startswith(self._tags.opening):
            # Some models open it once more.
            self._held, self._state = rest.removeprefix(self._tags.opening), "opened"
            return True
        if self._tags.opening.startswith(rest):
            return False
        if self._state == "opened":
            self._held, self._state = rest, "thinking"
        else:
            self._state = "content"
        return True

    def _read_thinking(self, events: list[ReasoningDelta | ContentDelta]) -> bool:
        at = self._held.find(self._tags.closing)
        if at >= 0:
            thought = self._held[:at].rstrip(SPACE)
            self._held = self._held[at + len(self._tags.closing) :]
            self._state = "closed"
        else:
            end = len(self._held) - partial_end(self._held, [self._tags.closing])
            thought = self._held[:end].rstrip(SPACE)
            self._held = self._held[len(thought) :]
        if thought:
            events.append(ReasoningDelta(thought))
        return at >= 0


_State = Literal["start", "opened", "thinking", "closed", "content"]


def partial_end(text: str, wanted: Sequence[str]) -> int:
    """Length of the longest end of `text` that is the beginning of one of `wanted`."""
    for length in range(min(max(map(len, wanted)) - 1, len(text)), 0, -1):
        if any(word.startswith(text[-length:]) for word in wanted):
            return length
    return 0
