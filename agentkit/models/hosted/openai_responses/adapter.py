"""The adapter: lays out, fills in, sends, and learns what a gateway does not know."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from agentkit.caching.plan.plan import CachePlan
from agentkit.caching.policy import OpenAiMarkPolicy, Provider, openai_policy
from agentkit.errors import ModelError, RequestRefused, UnknownModel
from agentkit.events import ModelEvent, UsageEvent
from agentkit.models.base import ModelRequest
from agentkit.models.hosted.begun import Begun
from agentkit.models.hosted.openai_common import (
    CacheFieldsRefusedWarning,
    rejected_cache_fields,
    send,
)
from agentkit.models.hosted.openai_responses.body import ResponsesBody, dropped_with, render
from agentkit.models.hosted.openai_responses.clients import new_client
from agentkit.models.hosted.openai_responses.encode import Encoder
from agentkit.models.hosted.openai_responses.layout import ResponsesLayout, Sheet, lay_out
from agentkit.models.hosted.openai_responses.options import ResponsesOptions
from agentkit.models.hosted.openai_responses.pieces import new_entries
from agentkit.models.hosted.openai_responses.steer import check_settings, identity, steering
from agentkit.models.hosted.openai_responses.stream import Translator
from agentkit.models.hosted.rate_headers import OnHeaders
from agentkit.models.hosted.wire import Body
from agentkit.models.loop_clients import LoopClients
from agentkit.warn import warn_user

if TYPE_CHECKING:
    from openai import AsyncOpenAI

_KEY = "OPENAI_API_KEY"
_MAX_RUNS = 1_024
"""Runs whose last response is remembered for diagnostics."""


class ResponsesAdapter:
    """A model behind OpenAI's Responses API, or behind a gateway that speaks it.

    Nothing is stored at the provider (`store: false`); reasoning comes along encrypted and is
    replayed as it came.

    Args:
        model: the provider's name, e.g. `gpt-6-sol`.
        client: the official client; by default one that reads `OPENAI_API_KEY`.
        options: settings for all requests.
        now_s: a monotonic clock, for the time to the first token.
    """

    def __init__(
        self,
        model: str,
        *,
        client: AsyncOpenAI | None = None,
        options: ResponsesOptions | None = None,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._model = model
        self._options = options or ResponsesOptions()
        self._clients = LoopClients(
            client,
            lambda: new_client(self.label, _KEY, self._options.base_url),
            lambda client: client.close(),
        )
        self._encoder = Encoder(
            label=self.label,
            image_detail=self._options.image_detail,
            strict_tools=self._options.strict_tools,
            adds_tools=_adds_tools(model, self._options),
        )
        self._store = new_entries()
        self._begun = Begun[Sheet]()
        self._now_s = now_s
        self.on_headers: OnHeaders | None = None
        """Hears the headers of each response; see `TellsHeaders`."""
        self._unknown: frozenset[str] = frozenset()
        self._responses: OrderedDict[str, str] = OrderedDict()

    @property
    def label(self) -> str:
        """The model string."""
        return f"openai:{self._model}"

    @property
    def provider(self) -> Provider:
        """Whose cache rules hold."""
        return Provider.OPENAI

    @property
    def model(self) -> str:
        """The provider's name of the model."""
        return self._model

    @property
    def takes_tools(self) -> bool:
        """Whether tools that come in mid-conversation are shown there; see `TakesTools`."""
        return self._encoder.adds_tools

    @property
    def refused_fields(self) -> frozenset[str]:
        """Cache fields that the server does not know. They are not sent any more."""
        return self._unknown

    def layout(self, request: ModelRequest) -> ResponsesLayout:
        """Return the request's pieces; see `Adapter.layout`."""
        check_settings(request.settings, self.label)
        entries = identity(request, self._model, self._options)
        return lay_out(
            request, self._encoder, self._store, entries, self._options.terms, self._begun
        )

    def body(self, layout: ResponsesLayout, plan: CachePlan, request: ModelRequest) -> Body:
        """Return the final bytes; see `Adapter.body`.

        With `ResponsesOptions.diagnose` they name the run's last response.
        """
        fields = steering(request, self._model, self._options, plan.mask)
        run = "\0".join((request.tenant, request.session or request.run_id, request.agent))
        compare_with = self._responses.get(run) if self._options.diagnose else None

        def again(without: frozenset[str], prewarm: bool) -> bytes:
            return render(
                layout, plan, fields, without=without, prewarm=prewarm, compare_with=compare_with
            )

        return ResponsesBody(
            data=again(self._unknown, False), headers=plan.hints.headers, run=run, render=again
        )

    async def stream(self, body: Body) -> AsyncGenerator[ModelEvent, None]:
        """Send it; see `Adapter.stream`.

        Where the server refuses a cache field by name, it is sent once more without, at once.
        """
        without = self._unknown
        while True:
            try:
                async with aclosing(self._send(body, without)) as events:
                    async for event in events:
                        yield event
                return
            except RequestRefused as error:
                refused = self._refused(body, error) - without
                if not refused or not isinstance(body, ResponsesBody):
                    raise
                without |= refused
                body = ResponsesBody(
                    data=body.render(without, False),
                    headers=body.headers,
                    run=body.run,
                    render=body.render,
                )

    async def touch(self, body: Body) -> ModelEvent | None:
        """Read the prefix once more without generating; see `Adapter.touch`."""
        if not self._can_prewarm() or not isinstance(body, ResponsesBody):
            return None
        warm = Body(data=body.render(self._unknown, True), headers=body.headers)
        usage: UsageEvent | None = None
        async with aclosing(self._send(warm, self._unknown)) as events:
            async for event in events:
                usage = event if isinstance(event, UsageEvent) else usage
        return usage

    async def aclose(self) -> None:
        """Close the client of this event loop, unless it was given."""
        await self._clients.aclose()

    async def _send(self, body: Body, without: frozenset[str]) -> AsyncGenerator[ModelEvent, None]:
        translator = Translator(self.label, self._now_s)
        client = await self._clients.get()
        sent = send(
            client,
            "/responses",
            body,
            label=self.label,
            key_variable=_KEY,
            on_headers=self.on_headers,
        )
        async with aclosing(sent) as events:
            async for event in events:
                self._learn(without)
                for translated in translator.push(event):
                    yield translated
        if not translator.has_ended:
            raise ModelError(f"{self.label}: the stream was cut off", retryable=True)
        if isinstance(body, ResponsesBody) and translator.response_id is not None:
            self._remember(body.run, translator.response_id)

    def _refused(self, body: Body, error: RequestRefused) -> frozenset[str]:
        """Return the cache fields that were sent and that the refusal names."""
        named = rejected_cache_fields(str(error))
        return dropped_with([name for name in named if f'"{name}":'.encode() in body.data])

    def _learn(self, without: frozenset[str]) -> None:
        """The server took a request without these fields."""
        new = without - self._unknown
        if not new:
            return
        self._unknown |= new
        warn_user(
            f"{self.label}: the server does not know {sorted(new)}; requests go without, "
            "and less may be cached than planned",
            CacheFieldsRefusedWarning,
        )

    def _remember(self, run: str, response_id: str) -> None:
        self._responses[run] = response_id
        self._responses.move_to_end(run)
        while len(self._responses) > _MAX_RUNS:
            self._responses.popitem(last=False)

    def _can_prewarm(self) -> bool:
        if "prompt_cache_options" in self._unknown:
            return False  # it is part of them
        try:
            policy = openai_policy(self._model, datetime.now(UTC).date())
        except UnknownModel:
            return False
        return isinstance(policy, OpenAiMarkPolicy)

    def __repr__(self) -> str:
        return f"ResponsesAdapter({self._model!r})"


def _adds_tools(model: str, options: ResponsesOptions) -> bool:
    if options.later_tools is not None:
        return options.later_tools
    try:
        policy = openai_policy(model, datetime.now(UTC).date())
    except UnknownModel:
        return False
    return policy.later_tools is not None and options.base_url is None
