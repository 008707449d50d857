"""One generation's state."""

from __future__ import annotations

import math
from dataclasses import dataclass

from agentkit_runtime.kv.lease import Lease
from agentkit_runtime.kv.missed import Missed
from agentkit_runtime.kv.restore import Restore
from agentkit_runtime.kv.tokens import TOKEN_BYTES, count, pack, unpack
from agentkit_runtime.types import FinishReason, GenerateRequest, Priority, RequestStats

CATCH_UP_TOKENS = 32
"""Generated tokens that a lane runs at once, such as those that a grammar forces: more of them, in
a sequence that resumes, are treated as a prompt."""


@dataclass(slots=True, eq=False)
class Sequence:
    """A request on its way through the scheduler.

    Region map of `tokens` (prompt, then generated):
        [0, lease.committed)          in the radix tree, canonical slots
        [.., computed)                KV present, slots private to this sequence
        [computed, len)               still to be run; the last one is sampled from
    """

    request: GenerateRequest
    arrival: int
    """Order of submission."""
    submitted_s: float
    tokens: bytearray
    """Packed ids (`kv.tokens`): the form the tree matches on."""
    n_prompt: int
    limit: int
    """No more tokens than this in all (prompt and generated)."""
    computed: int = 0
    lease: Lease | None = None
    draft: tuple[int, ...] = ()
    """Guesses at the tokens behind the known ones, to be verified in the next step. Set by the core
    after each step; the scheduler takes as many as fit, and forgets the rest."""
    drafted_tokens: int = 0
    """Guesses that were run."""
    accepted_tokens: int = 0
    """Of these, how many the model agreed with."""
    restored_tokens: int = 0
    """Prompt tokens that a slower tier gave back for it."""
    cached_tokens: int | None = None
    """Prompt tokens read from the tree at the first admission."""
    missed: Missed | None = None
    """What was not found there then; None before."""
    started_s: float | None = None
    first_token_s: float | None = None
    aborted: bool = False
    due_s: float = math.inf
    """When its deadline passes."""
    preemptions: int = 0
    """How often it had to leave its lane."""
    # While it waits:
    rank: float = 0.0
    """Its place among those of its tenant and class: seconds; the smallest goes first."""
    returning: bool = False
    """Its session was expected back."""
    restore: Restore | None = None
    """Its prefix is on the way from a slower tier."""
    restore_tried: bool = False
    """A slower tier was asked."""
    matched: int = 0
    """Cached tokens when last looked: good for ordering, never for reading."""
    overtaken: int = 0
    """Others that were admitted since it found no room."""
    leader: Sequence | None = None
    """Whose work it waits for: up to token `fork`, where the two part."""
    fork: int = 0

    @classmethod
    def start(
        cls, request: GenerateRequest, *, arrival: int, now_s: float, max_length: int
    ) -> Sequence:
        """Make the state of a new request; `max_length` is the context limit in tokens."""
        n_prompt = len(request.prompt)
        limit = max_length
        if request.sampling.max_tokens is not None:
            limit = min(limit, n_prompt + request.sampling.max_tokens)
        return cls(
            request=request,
            arrival=arrival,
            submitted_s=now_s,
            tokens=bytearray(pack(request.prompt)),
            n_prompt=n_prompt,
            limit=limit,
            due_s=math.inf if request.deadline_s is None else now_s + request.deadline_s,
        )

    @property
    def priority(self) -> Priority:
        """Its class."""
        return self.request.priority

    @property
    def tenant(self) -> str:
        """Whose share it uses."""
        return self.request.scope.tenant

    @property
    def fills_only(self) -> bool:
        """True for a request that generates nothing: it only brings its prompt into the cache."""
        return self.limit <= self.n_prompt

    @property
    def length(self) -> int:
        """Tokens known so far: prompt and generated."""
        return count(self.tokens)

    @property
    def n_generated(self) -> int:
        """Tokens generated so far."""
        return self.length - self.n_prompt

    @property
    def prefilling(self) -> bool:
        """True while a token of the prompt has no KV, or when much has to be computed again."""
        return self.computed < self.n_prompt or self.length - self.computed > CATCH_UP_TOKENS

    def key(self, n_tokens: int) -> bytes:
        """Return the first `n_tokens` tokens as a tree key."""
        return bytes(self.tokens[: n_tokens * TOKEN_BYTES])

    def ids(self, start: int, end: int) -> list[int]:
        """Return token ids [start, end)."""
        return unpack(bytes(self.tokens[start * TOKEN_BYTES : end * TOKEN_BYTES]))

    def append(self, token_id: int) -> None:
        """Add a generated token."""
        self.tokens += pack([token_id])

    def forget(self, n_tokens: int) -> None:
        """Drop the tokens behind the first `n_tokens`, none of which has KV."""
        del self.tokens[n_tokens * TOKEN_BYTES :]

    def stats(self, now_s: float) -> RequestStats:
        """Sum up a finished (or ended) request."""
        started = self.started_s if self.started_s is not None else now_s
        first = self.first_token_s
        return RequestStats(
            prompt_tokens=self.n_prompt,
            cached_tokens=self.cached_tokens or 0,
            completion_tokens=self.n_generated,
            queue_s=started - self.submitted_s,
            ttft_s=None if first is None else first - self.submitted_s,
            total_s=now_s - self.submitted_s,
            restored_tokens=min(self.restored_tokens, self.cached_tokens or 0),
            drafted_tokens=self.drafted_tokens,
            accepted_tokens=self.accepted_tokens,
            missed=self.missed,
        )


def readable(sequence: Sequence) -> int:
    """Tokens that may be read from the cache: the last one runs, for the sake of its logits."""
    return sequence.length if sequence.fills_only else sequence.length - 1


@dataclass(frozen=True, slots=True)
class Chunk:
    """Tokens [start, start + n) of a sequence, to be run in this step, and guesses behind them."""

    sequence: Sequence
    start: int
    n: int
    """Known tokens."""
    draft: tuple[int, ...] = ()
    """Guesses at positions from start + n on; slots for them are held. Empty unless `samples`.
    Their KV counts only as far as `Scheduler.accept` says."""

    @property
    def n_rows(self) -> int:
        """Tokens that go through the model: known ones and guesses."""
        return self.n + len(self.draft)

    @property
    def reaches_end(self) -> bool:
        """True when every known token has KV after this chunk."""
        return self.start + self.n == self.sequence.length

    @property
    def samples(self) -> bool:
        """True when a token is sampled behind the last known one."""
        return self.reaches_end and not self.sequence.fills_only

    @property
    def completes(self) -> bool:
        """True for the last chunk of a request that only fills the cache: finish it afterwards."""
        return self.reaches_end and self.sequence.fills_only


@dataclass(frozen=True, slots=True)
class Ended:
    """A sequence that left the scheduler without another step."""

    sequence: Sequence
    reason: FinishReason
    error: str | None = None
