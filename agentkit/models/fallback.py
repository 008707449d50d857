"""A model that has another answer where the first cannot: overloaded, out of quota, not reached.

A conversation stays with whom it was answered by, because that is where its prompt is cached. It
goes back to the preferred model only where that costs nothing, or less: see `FallbackModel`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from agentkit.caching.recent import Recent
from agentkit.context.sizes import segment_tokens
from agentkit.errors import ConfigurationError, ModelError, RequestRefused
from agentkit.events import ModelEvent, UsageEvent
from agentkit.models.base import (
    CostsNothing,
    HasPrices,
    HasWindow,
    KeepsAlive,
    Model,
    ModelRequest,
    TakesHints,
    takes_tools,
)
from agentkit.models.prices import prices_of
from agentkit.models.resolve import resolve_model
from agentkit.usage import Timing, Usage

if TYPE_CHECKING:
    from agentkit.caching.policy.edits import ContextEdit
    from agentkit.caching.verdict import Verdict
    from agentkit.context.prices import Prices

_LOGGER = logging.getLogger("agentkit.models")
_CONVERSATIONS = 4_096
_TURNS_LEFT = 5
"""Expected of a conversation whose end is not known."""

_Key: TypeAlias = tuple[str, str, str]


@dataclass(slots=True)
class _Conversation:
    """Who answers a conversation, and since when nothing was asked in it."""

    index: int
    last_s: float
    n_waits: int = 0
    """Rate limits in a row that were waited out."""


class FallbackModel:
    """Models in the order of preference; the next one is asked where one fails.

    Not where the request is at fault: what one model refuses for good is refused. A stream is
    never put together from two models: if an answer breaks off, the loop drops it, and asks again,
    and only then the next model is asked. A model that failed is left alone for `cool_down_s`, by
    all conversations; those that it answered go on elsewhere.

    They go back when the cool-down is over and it is worth it: after `cache_s` without a request,
    when what the other model had cached is gone anyway; or as soon as the rest of the conversation
    is cheaper there, with the whole prompt to be written anew, where both prices are known.

    `Turn.model` and the records of requests name who answered.

    Args:
        models: models or model strings, the preferred one first.
        cool_down_s: how long a model that failed is left alone; longer if it asks for more.
        patience_s: a rate limit that asks for no longer than this is waited out once, with the
            same model: that is cheaper than a prompt that nobody has cached.
        cache_s: after how long without a request a conversation's cache is taken for gone.
        now_s: seconds, monotonic.

    Raises:
        ConfigurationError: there are fewer than two models, or two are the same; a time is
            negative.
        UnknownModel: a string names nothing we know.
    """

    def __init__(
        self,
        models: Sequence[str | Model],
        *,
        cool_down_s: float = 60.0,
        patience_s: float = 10.0,
        cache_s: float = 300.0,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        if isinstance(models, str) or len(models) < 2:
            raise ConfigurationError(f"models must be a list of at least two, got {models!r}")
        self._models = tuple(map(resolve_model, models))
        labels = [model.label for model in self._models]
        if len(set(labels)) < len(labels):
            raise ConfigurationError(f"each model may be named once, got {labels!r}")
        for name, value in (
            ("cool_down_s", cool_down_s),
            ("patience_s", patience_s),
            ("cache_s", cache_s),
        ):
            if not value >= 0:
                raise ConfigurationError(f"{name} must be at least 0 seconds, got {value!r}")
        self._cool_down_s = cool_down_s
        self._patience_s = patience_s
        self._cache_s = cache_s
        self._now_s = now_s
        self._down_until_s = [float("-inf")] * len(self._models)
        self._conversations: Recent[_Key, _Conversation] = Recent(_CONVERSATIONS)

    @property
    def models(self) -> tuple[Model, ...]:
        """Those that may answer, the preferred one first."""
        return self._models

    @property
    def label(self) -> str:
        """E.g. `fallback(anthropic:..., openai:...)`."""
        return f"fallback({', '.join(model.label for model in self._models)})"

    @property
    def siblings_start_together(self) -> bool:
        """Whether they may with each of the models."""
        return all(model.siblings_start_together for model in self._models)

    @property
    def context_tokens(self) -> int | None:
        """The shortest of the known windows: a conversation may have to go on anywhere."""
        windows = [model.context_tokens for model in self._models if isinstance(model, HasWindow)]
        return min((each for each in windows if each is not None), default=None)

    @property
    def takes_tools(self) -> bool:
        """Whether each of the models does: a conversation may have to go on anywhere."""
        return all(map(takes_tools, self._models))

    @property
    def costs_nothing(self) -> bool:
        """Whether none of the models costs money."""
        return all(
            isinstance(model, CostsNothing) and model.costs_nothing for model in self._models
        )

    def prices(self) -> Prices:
        """Return those of the model that new conversations are asked of now."""
        return prices_of(self._models[self._order(0)[0]])

    def context_edits(self) -> tuple[ContextEdit, ...]:
        """Return those of the model that new conversations are asked of now."""
        model = self._models[self._order(0)[0]]
        return model.context_edits() if isinstance(model, HasPrices) else ()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Ask the models, one after the other, until one begins to answer.

        Raises:
            RequestRefused: the model can never serve this request.
            ModelError: an answer broke off, a rate limit is worth waiting for, or all have failed.
        """
        conversation = self._conversation(request)
        failures: list[ModelError] = []
        for index in self._order(conversation.index):
            has_begun = False
            try:
                async with aclosing(self._answers(index, request)) as events:
                    async for event in events:
                        has_begun = True
                        yield event
            except RequestRefused:
                raise
            except ModelError as error:
                has_begun = has_begun or error.response_began
                self._failed(index, conversation, error, has_begun=has_begun)
                failures.append(error)
            else:
                conversation.index, conversation.n_waits = index, 0
                conversation.last_s = self._now_s()
                return
        raise _all_failed(failures)

    @asynccontextmanager
    async def kept_alive(
        self, request: ModelRequest, on_ping: Callable[[Usage, Timing, Verdict], None]
    ) -> AsyncIterator[None]:
        """Keep the prefix alive at the model that has it, if that can."""
        known = self._conversations.get(_key(request))
        model = None if known is None else self._models[known.index]
        if known is None or not isinstance(model, KeepsAlive):
            yield
            return
        async with model.kept_alive(request, on_ping):
            yield
        known.last_s = self._now_s()

    def likely_next(self, agents: frozenset[str], tenant: str) -> None:
        """Tell the model that new conversations are asked of now."""
        model = self._models[self._order(0)[0]]
        if isinstance(model, TakesHints):
            model.likely_next(agents, tenant)

    def conversation_ended(self, request: ModelRequest) -> None:
        """Tell all models: each may have a part of it."""
        for model in self._models:
            if isinstance(model, TakesHints):
                model.conversation_ended(request)

    async def _answers(self, index: int, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        model = self._models[index]
        async with aclosing(model.stream(request)) as events:
            async for event in events:
                if isinstance(event, UsageEvent) and event.model is None:
                    event = replace(event, model=model.label)
                yield event

    def _conversation(self, request: ModelRequest) -> _Conversation:
        key = _key(request)
        known = self._conversations.get(key)
        if known is None:
            known = _Conversation(index=self._order(0)[0], last_s=self._now_s())
            self._conversations[key] = known
        elif known.index and (better := self._better(known, request)) is not None:
            _LOGGER.info("goes back from %s to %s", *self._labels(known.index, better))
            known.index = better
        return known

    def _better(self, known: _Conversation, request: ModelRequest) -> int | None:
        """Return a model that is preferred and worth going back to; None if there is none."""
        is_cold = self._now_s() - known.last_s >= self._cache_s
        for index in range(known.index):
            if not self._is_down(index) and (is_cold or self._is_cheaper(index, known, request)):
                return index
        return None

    def _is_cheaper(self, index: int, known: _Conversation, request: ModelRequest) -> bool:
        there, here = prices_of(self._models[index]), prices_of(self._models[known.index])
        if not there.is_known or not here.is_known:
            return False
        n_tokens = sum(map(segment_tokens, request.context.segments))
        left = request.reuse.turns_left
        n_later = _TURNS_LEFT if left is None else min(left, _TURNS_LEFT)
        moved = there.request(written=n_tokens) + n_later * there.request(read=n_tokens)
        return moved < (1 + n_later) * here.request(read=n_tokens)

    def _order(self, first: int) -> list[int]:
        """Return whom to ask: the conversation's own, the others as preferred, those down last."""
        others = (index for index in range(len(self._models)) if index != first)
        order = [first, *others]
        up = [index for index in order if not self._is_down(index)]
        down = [index for index in order if self._is_down(index)]
        return [*up, *sorted(down, key=lambda index: self._down_until_s[index])]

    def _is_down(self, index: int) -> bool:
        return self._down_until_s[index] > self._now_s()

    def _failed(
        self, index: int, conversation: _Conversation, error: ModelError, *, has_begun: bool
    ) -> None:
        """Leave the model alone for a while.

        Raises:
            ModelError: the loop has to ask again, because the answer had begun, or after a wait.
        """
        wait_s = error.retry_after_s
        if not has_begun and error.retryable and wait_s is not None:
            is_own = index == conversation.index
            if is_own and wait_s <= self._patience_s and not conversation.n_waits:
                conversation.n_waits += 1
                raise error
        self._down_until_s[index] = self._now_s() + max(self._cool_down_s, wait_s or 0.0)
        conversation.n_waits = 0
        label = self._models[index].label
        _LOGGER.warning("%s failed, and is left alone", label, exc_info=error)
        if has_begun:
            # Another model is asked at once; what this one has said is dropped.
            again = ModelError(str(error), retryable=True, retry_after_s=0.0)
            again.response_began = True
            raise again from error

    def _labels(self, *indices: int) -> list[str]:
        return [self._models[index].label for index in indices]

    def __repr__(self) -> str:
        return f"FallbackModel({[model.label for model in self._models]!r})"


def _key(request: ModelRequest) -> _Key:
    return (request.tenant, request.session or request.run_id, request.agent)


def _all_failed(failures: Sequence[ModelError]) -> ModelError:
    waits = [each.retry_after_s for each in failures if each.retry_after_s is not None]
    return ModelError(
        "all models failed: " + "; ".join(map(str, failures)),
        retryable=any(each.retryable for each in failures),
        retry_after_s=min(waits, default=None),
    )
