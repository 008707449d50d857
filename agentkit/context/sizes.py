"""How long the parts of a context are, in tokens."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

from agentkit.blocks import AssistantMessage, File, Image, ToolMessage, UserMessage
from agentkit.caching.tokens import attachment_tokens, data_tokens
from agentkit.context.context import Context
from agentkit.context.segment import Content, Segment
from agentkit.context.tier import Tier
from agentkit.context.turns import is_delta, is_summary, last_turns, outlasts
from agentkit.usage import Usage


class Sizes:
    """Tokens of a context's parts: estimates, scaled to what the provider counted."""

    def __init__(self, context: Context, usage: Usage | None) -> None:
        self._messages = context.messages
        history = [each for each in context.segments if each.tier is Tier.HISTORY]
        self._counts = [segment_tokens(each) for each in history]
        front = sum(segment_tokens(each) for each in context.front.segments)
        self._scale = Decimal(1)
        reported = reported_tokens(usage)
        if reported is not None:
            counted = front + sum(self._counts) - uncounted_tokens(context)
            self._scale = Decimal(reported) / max(1, counted)
        self.front = self._scaled(front)
        """Rules, tools, role and knowledge."""
        self.total = self._scaled(front + sum(self._counts))
        """The whole context."""

    @property
    def grown(self) -> int:
        """What was added since the epoch began with its summary; all, if it began without one."""
        if not self._messages or not is_summary(self._messages[0]):
            return self.total
        return self.total - self.front - self._scaled(self._counts[0])

    @property
    def deltas(self) -> int:
        """What supersedes parts of the front."""
        pairs = zip(self._messages, self._counts, strict=True)
        return self._scaled(sum(count for message, count in pairs if is_delta(message)))

    def after(self, keep_turns: int, summary_tokens: int, front: Context | None = None) -> int:
        """Tokens of a new epoch with a summary and so many kept turns, see `carried`.

        With a newer front there are no deltas.
        """
        n_last = len(last_turns(self._messages, keep_turns))
        pairs = list(zip(self._messages, self._counts, strict=True))
        n_summarised = len(pairs) - n_last
        if front is not None:
            n_front = sum(segment_tokens(each) for each in front.segments)
            last = (count for each, count in pairs[n_summarised:] if not is_delta(each))
            return self._scaled(n_front + sum(last)) + summary_tokens
        kept = sum(count for _, count in pairs[n_summarised:])
        kept += sum(count for message, count in pairs[:n_summarised] if outlasts(message))
        return self.front + summary_tokens + self._scaled(kept)

    def _scaled(self, n_tokens: int) -> int:
        return int(n_tokens * self._scale)


def segment_tokens(segment: Segment) -> int:
    """Estimate a segment's tokens; an image's are not those of its bytes."""
    attached = list(_attachments(segment.content))
    n_bytes = sum(len(each.data or "") for each in attached)
    return data_tokens(segment.data[n_bytes:]) + sum(map(attachment_tokens, attached))


def _attachments(content: Content) -> Iterator[Image | File]:
    if isinstance(content, UserMessage):
        yield from (each for each in content.blocks if isinstance(each, Image | File))
    elif isinstance(content, ToolMessage):
        for result in content.results:
            yield from result.attachments


def reported_tokens(usage: Usage | None) -> int | None:
    """Return the tokens of a request and its answer; None if they are not known."""
    if usage is None or usage.input_tokens is None:
        return None
    return usage.input_tokens + (usage.output_tokens or 0)


def uncounted_tokens(context: Context) -> int:
    """Estimate the tokens behind the model's last turn, which its usage has not counted yet."""
    n_tokens = 0
    for segment in reversed(context):
        if segment.tier is not Tier.HISTORY or isinstance(segment.content, AssistantMessage):
            break
        n_tokens += segment_tokens(segment)
    return n_tokens
