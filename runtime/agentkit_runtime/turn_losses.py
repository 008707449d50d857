"""How much of what was cached each next turn loses, because its prompt says it otherwise.

The next turn's prompt should begin with this one's and the generated reply. Where the same reply
comes back and the prompt does not, the template has rewritten something (see `text.rewrites`), or
the reply could not be found again; either way the tokens behind that place are computed twice.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agentkit_runtime.chat import ChatMessage
from agentkit_runtime.kv.tokens import common_prefix, pack
from agentkit_runtime.text.recent import Recent
from agentkit_runtime.text.rewrites import Rewrite

_KEPT_IDS = 4_000_000
"""Ids of prompts and replies that are remembered; most are shared with the prompt memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A complete reply, as it was told to the caller."""

    content: str
    calls: tuple[tuple[str, str], ...]
    """Name and argument text of each tool call."""
    ids: tuple[int, ...]
    """What was generated, up to the end of its text."""

    def came_back_as(self, message: ChatMessage) -> bool:
        """Whether a message of the history is this reply."""
        calls = tuple((call.name, call.arguments) for call in message.tool_calls)
        said = (message.role, message.content, calls)
        return said == ("assistant", self.content, self.calls)


@dataclass(frozen=True, slots=True)
class LossStats:
    """Counts since start."""

    turns: int = 0
    """Requests that went on from a reply of ours."""
    rewritten: int = 0
    """Of them, those whose prompt did not begin with the earlier prompt and its reply."""
    lost_tokens: int = 0
    """Tokens of these prompts and replies that were not in the next prompt's beginning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateReport:
    """How well a model's chat template keeps what is cached."""

    rewrites: tuple[Rewrite, ...]
    """Found at load, with samples."""
    switches: Mapping[str, object]
    """Variables of the template that were set to keep the history as it was."""
    losses: LossStats
    """Measured since then."""


class TurnLosses:
    """Compares each turn with the one before it. Thread-safe, bounded."""

    def __init__(self) -> None:
        self._answers: Recent[int, tuple[tuple[int, ...], Reply]] = Recent(_KEPT_IDS)
        self._stats = LossStats()
        self._lock = threading.Lock()

    @property
    def stats(self) -> LossStats:
        """The counts."""
        return self._stats

    def answered(self, key: int, prompt: tuple[int, ...], reply: Reply) -> None:
        """Remember a reply to the prompt with this key; see `prompt_memory.prompt_keys`."""
        self._answers.put(key, (prompt, reply), len(prompt) + len(reply.ids))

    def look(
        self, keys: Sequence[int], messages: Sequence[ChatMessage], ids: tuple[int, ...]
    ) -> None:
        """Count a prompt that goes on from the latest reply in its history, if it is known."""
        for n in range(len(messages) - 1, 0, -1):
            if messages[n].role != "assistant":
                continue
            answer = self._answers.get(keys[n])
            if answer is not None and answer[1].came_back_as(messages[n]):
                self._count(n_lost((*answer[0], *answer[1].ids), ids))
            return

    def _count(self, lost: int) -> None:
        with self._lock:
            before = self._stats
            self._stats = LossStats(
                before.turns + 1, before.rewritten + (lost > 0), before.lost_tokens + lost
            )


def n_lost(before: tuple[int, ...], after: tuple[int, ...]) -> int:
    """How many tokens of `before` are not where `after` begins."""
    if after[: len(before)] == before:
        return 0
    if not after:
        return len(before)
    return len(before) - common_prefix(pack(before), 0, pack(after))
