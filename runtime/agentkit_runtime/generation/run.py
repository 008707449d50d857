"""One request between its logits and its caller."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from agentkit_runtime.generation import logprobs
from agentkit_runtime.generation.drafting import PromptLookup, row_cost, useful
from agentkit_runtime.generation.rows import LogitRows
from agentkit_runtime.model.sampler import Sampler
from agentkit_runtime.sched import sequence as sequences
from agentkit_runtime.types import Delta, EngineEvent, FinishReason, TokenLogprob


@dataclass(slots=True)
class Output:
    """Collects what one step adds to one request."""

    text: str = ""
    ids: list[int] = field(default_factory=list)
    logprobs: list[TokenLogprob] = field(default_factory=list)
    """One for each of `ids`, if the request wants them."""
    reason: FinishReason | None = None
    stopped: bool = False
    """A stop string was completed: what is held back is part of it."""
    stop: str | None = None
    """Which one."""

    @property
    def delta(self) -> Delta:
        """The event that tells the caller."""
        return Delta(self.text, tuple(self.ids), tuple(self.logprobs), self.stop)

    def agreed(self, draft: Sequence[int]) -> int:
        """How many leading tokens of a draft came true: their KV is right."""
        n = 0
        for ours, drafted in zip(self.ids, draft, strict=False):
            if ours != drafted:
                break
            n += 1
        return n


class Run:
    """What a live request needs beside its scheduler state."""

    def __init__(self, sequence: sequences.Sequence, emit: Callable[[EngineEvent], None]) -> None:
        self.sequence = sequence
        self.emit = emit
        self._request = sequence.request
        self._sampler = Sampler(sequence.request.sampling, sequence.request.prompt)
        self._lookup: PromptLookup | None = None

    def take(self, rows: LogitRows, first: int, draft: Sequence[int]) -> Output:
        """Choose and accept the tokens that follow a chunk.

        Row `first` holds the logits behind the last known token, the rows after it those behind
        each token of `draft`. A row counts only if everything before it came true, and is treated
        then exactly as the only row of a step: the same masks, one draw, the same tests for an
        end. So the output does not depend on drafts.

        Raises:
            ValueError: the model returned no finite logit.
            Exception: whatever a grammar or text stream raises.
        """
        output = Output()
        while output.reason is None:
            n = len(output.ids)
            if n > len(draft) or output.agreed(draft) < n:
                break
            self._choose(rows, first + n, output)
        return output

    def draft(self, n_lanes: int) -> tuple[int, ...]:
        """Guess the tokens of the next step, as far as they could be accepted and it pays.

        `n_lanes` is how many sequences are in a step.
        """
        request, sequence = self._request, self.sequence
        if not request.speculate:
            return ()
        if self._lookup is None:  # not before the first token: nobody shall wait for it
            known = sequence.ids(0, sequence.length)
            self._lookup = PromptLookup(known, request.speculate)
        # One more token is chosen behind the draft, and that may be the last one.
        room = sequence.limit - sequence.length - 1
        draft = useful(self._lookup.propose(row_cost(n_lanes)), request.eos_ids, room)
        if draft and request.grammar is not None:
            return draft[: request.grammar.acceptable(draft)]
        return draft

    def held_back(self) -> str:
        """Text that was not shown because more could have changed it."""
        return self._request.text.finish()

    def _choose(self, rows: LogitRows, row: int, output: Output) -> None:
        """Choose a token from a row, then take those that the grammar forces."""
        grammar = self._request.grammar
        token, logprob = self._sample(rows, row)
        self._accept(token, logprob, output)
        if grammar is None:
            return
        while output.reason is None and (forced := grammar.forced()):
            for token in forced:
                self._accept(token, logprobs.forced(token), output, forced=True)
                if output.reason is not None:
                    return

    def _sample(self, rows: LogitRows, row: int) -> tuple[int, TokenLogprob | None]:
        request = self._request
        if not rows.finite(row):
            raise ValueError("the model returned no finite logit for this request")
        n_top = request.sampling.logprobs
        if request.grammar is None and n_top is None and self._sampler.takes_best:
            return rows.best(row), None
        scores = rows.scores(row)
        known = None if n_top is None else logprobs.RowLogprobs(scores, n_top)
        if request.grammar is not None:
            request.grammar.apply(scores)
        token = self._sampler.choose(scores)
        return token, None if known is None else known.of(token)

    def _accept(
        self, token: int, logprob: TokenLogprob | None, output: Output, *, forced: bool = False
    ) -> None:
        sequence, request = self.sequence, self._request
        sequence.append(token)
        output.ids.append(token)
        self._sampler.accept(token)
        if logprob is not None and request.sampling.logprobs is not None:
            output.logprobs.append(logprob)
        if self._lookup is not None:
            self._lookup.push(token, forced=forced)
        if token in request.eos_ids:
            output.reason = FinishReason.STOP
            return
        if request.grammar is not None:
            request.grammar.accept(token)
        delta = request.text.push(token)
        output.text += delta.text
        output.stopped, output.stop = delta.stopped, delta.stop
        if delta.stopped or (request.grammar is not None and request.grammar.done):
            output.reason = FinishReason.STOP
        elif sequence.length >= sequence.limit:
            output.reason = FinishReason.LENGTH
