"""Values that every layer of the runtime shares. Nothing here imports torch."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from agentkit_runtime.checks import (
    require_instance,
    require_number,
    require_text,
    require_texts,
    require_whole,
)
from agentkit_runtime.kv.missed import Missed
from agentkit_runtime.kv.scope import NO_SCOPE, Scope

if TYPE_CHECKING:
    import torch


class FinishReason(enum.StrEnum):
    """Why a generation ended."""

    STOP = "stop"
    """End-of-sequence token, stop string, or the grammar was complete."""
    LENGTH = "length"
    """`max_tokens` or the context limit was reached."""
    ABORT = "abort"
    """The caller went away or cancelled."""
    DEADLINE = "deadline"
    """`GenerateRequest.deadline_s` passed."""
    ERROR = "error"
    """The request failed inside the engine; `Finished.error` says why."""


class Priority(enum.IntEnum):
    """Which waiting request goes first. A higher class never starves a lower one for ever."""

    BATCH = 0
    """Nobody waits for it: runs in what the others leave."""
    NORMAL = 1
    INTERACTIVE = 2
    """A person waits for the first token."""


MAX_LOGPROBS = 20
"""Most alternatives that a request can ask for with each token."""

MAX_SPECULATE = 64
"""Most tokens that can be drafted at a time; hardly ever are more than ten right in a row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingParams:
    """How the next token is chosen. Defaults are greedy decoding."""

    temperature: float = 0.0
    """0 is greedy."""
    top_k: int = 0
    """Keep the k most likely tokens; 0 keeps all."""
    top_p: float = 1.0
    """Keep the smallest set of tokens whose probability reaches p."""
    seed: int | None = None
    """With a seed the same request gives the same tokens."""
    max_tokens: int | None = None
    """Bound on generated tokens; None means up to the context limit. 0 computes the prompt and
    generates nothing: it fills the cache."""
    logprobs: int | None = None
    """With each token its log-probability and those of this many most likely ones; None is none."""
    stop: tuple[str, ...] = ()
    """Generation ends before any of these strings; the string itself is not emitted."""
    min_p: float = 0.0
    """Drop tokens less likely than this share of the likeliest one's probability; 0 keeps all."""
    frequency_penalty: float = 0.0
    """Taken from a token's logit for each time it was generated before."""
    presence_penalty: float = 0.0
    """Taken from a token's logit once it was generated before."""
    repetition_penalty: float = 1.0
    """Logits of tokens that are in the prompt or were generated before are divided by it where they
    are positive, and multiplied where they are negative (as transformers does it, after Keskar et
    al. 2019, CTRL, section 4.1); 1 is off."""
    logit_bias: tuple[tuple[int, float], ...] = ()
    """Token ids, and what is added to their logits."""

    def __post_init__(self) -> None:
        require_number("temperature", self.temperature, least=0, most=100)
        require_whole("top_k", self.top_k, least=0)
        require_number("top_p", self.top_p, least=0, most=1)
        if self.top_p == 0.0:
            raise ValueError(f"top_p must be in (0, 1], got {self.top_p!r}")
        if self.seed is not None:
            require_whole("seed", self.seed, least=-(2**63), most=2**64 - 1)
        if self.max_tokens is not None:
            require_whole("max_tokens", self.max_tokens, least=0)
        if self.logprobs is not None:
            require_whole("logprobs", self.logprobs, least=0, most=MAX_LOGPROBS)
        require_number("min_p", self.min_p, least=0, most=1)
        require_number("frequency_penalty", self.frequency_penalty, least=-2, most=2)
        require_number("presence_penalty", self.presence_penalty, least=-2, most=2)
        require_number("repetition_penalty", self.repetition_penalty, least=0.01, most=100)
        require_instance("logit_bias", self.logit_bias, tuple)
        for token_id, bias in self.logit_bias:
            require_whole("token id in logit_bias", token_id, least=0)
            require_number("bias in logit_bias", bias, least=-100, most=100)
        require_texts("stop", self.stop, tuple)
        if any(not text for text in self.stop):
            raise ValueError("stop must not contain empty strings")


class Grammar(Protocol):
    """Restricts which tokens may come next. One instance belongs to one generation."""

    def apply(self, logits: torch.Tensor) -> None:
        """Set forbidden tokens of `logits` [vocab] to -inf, in place. Free text forbids none."""

    def accept(self, token_id: int) -> None:
        """Advance by one generated token."""

    def forced(self) -> list[int]:
        """Token ids that must come next, whatever the model says; not yet accepted. Often empty."""

    def acceptable(self, token_ids: Sequence[int]) -> int:
        """How many leading ones of these tokens it would accept one after the other. Changes
        nothing; may say too many, for what is guessed is checked again."""

    @property
    def done(self) -> bool:
        """True when nothing but the end may follow."""


@dataclass(frozen=True, slots=True)
class TextDelta:
    """What one token added to the visible text."""

    text: str
    stopped: bool = False
    """A stop string was completed; `text` ends before it."""
    stop: str | None = None
    """Which one."""


class TextStream(Protocol):
    """Turns generated token ids into text that may be shown. One instance per generation."""

    def push(self, token_id: int) -> TextDelta:
        """Add a token; returns the text that is now safe to show (never half a character)."""

    def finish(self) -> str:
        """Return what was held back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerateRequest:
    """One generation, as the engine sees it."""

    request_id: str
    prompt: tuple[int, ...]
    """Token ids, at least one."""
    namespace: bytes
    """Digest that names the radix root this request may read and write."""
    text: TextStream
    sampling: SamplingParams = field(default_factory=SamplingParams)
    grammar: Grammar | None = None
    eos_ids: frozenset[int] = frozenset()
    scope: Scope = NO_SCOPE
    """Who asks, for quotas, fair shares, pruning and hints."""
    priority: Priority = Priority.NORMAL
    deadline_s: float | None = None
    """Seconds after submit at which the request ends, finished or not; None waits for ever."""
    speculate: int = 0
    """Most tokens that are drafted from the request's own text and verified in one step, at most
    `MAX_SPECULATE`; 0 is off. The output is the same either way."""
    repeats_prompt: bool = False
    """A further sample of a prompt that another request counts: its prompt is in no count again."""

    def __post_init__(self) -> None:
        # What is wrong here would be found by the engine's thread, and end it for everybody.
        require_text("request_id", self.request_id)
        require_instance("prompt", self.prompt, tuple)
        require_instance("namespace", self.namespace, bytes)
        require_instance("sampling", self.sampling, SamplingParams)
        require_instance("scope", self.scope, Scope)
        require_instance("priority", self.priority, Priority)
        require_deadline(self.deadline_s)
        require_whole("speculate", self.speculate, least=0, most=MAX_SPECULATE)


def require_deadline(seconds: object) -> None:
    """Raise ValueError for a `deadline_s` that is no time from now."""
    if seconds is not None:
        require_number("deadline_s", seconds, least=0, finite=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestStats:
    """Tokens and seconds of one finished request. Seconds are on the engine's monotonic clock."""

    prompt_tokens: int
    cached_tokens: int
    """Prompt tokens whose KV was read from the radix tree (at most prompt_tokens - 1)."""
    completion_tokens: int
    queue_s: float
    """From submit to the first step that computed a token of this request."""
    ttft_s: float | None
    """From submit to the first generated token; None if there was none."""
    total_s: float
    restored_tokens: int = 0
    """Of `cached_tokens`, those that came back from host memory or disk."""
    drafted_tokens: int = 0
    """Tokens that were guessed ahead (`GenerateRequest.speculate`)."""
    accepted_tokens: int = 0
    """Of these, how many the model agreed with."""
    missed: Missed | None = None
    """Why no more of the prompt was cached; None where the request never started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenLogprob:
    """One generated token's natural log-probability, as the model gave it: before grammar,
    temperature, top-k and top-p."""

    token_id: int
    logprob: float
    top: tuple[tuple[int, float], ...] = ()
    """The most likely tokens at this place, with theirs, most likely first."""


@dataclass(frozen=True, slots=True)
class Delta:
    """New tokens and the text they add. `text` may be empty."""

    text: str
    token_ids: tuple[int, ...]
    logprobs: tuple[TokenLogprob, ...] = ()
    """One for each of `token_ids` when the request wanted them, else empty. A token that a grammar
    forced was not chosen by the model: its log-probability is 0."""
    stop: str | None = None
    """The stop string that ended the text."""
    stats: RequestStats | None = None
    """With the first token only: what is known of the request by then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """The last event of every request."""

    reason: FinishReason
    stats: RequestStats
    error: str | None = None


EngineEvent = Delta | Finished
