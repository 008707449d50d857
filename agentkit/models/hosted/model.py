"""HostedModel: a model behind an API. Lays a request out, has it planned, sends it, reports.

The order of one request:

    layout   the adapter: pieces in the provider's cache order
    enter    the tracker: waits for a sibling that writes the same prefix, then plans the marks
    body     the adapter: final bytes
    stream   the adapter: the official SDK sends them, events come back
    finish   the tracker: what was read and paid, against the plan
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from datetime import date, datetime
from typing import Generic, cast

from agentkit.blocks import File, Image
from agentkit.caching.options import CacheOptions
from agentkit.caching.policy import Evidence, Policy, PriceRow, Provider, Source
from agentkit.caching.policy.edits import ContextEdit, context_edits
from agentkit.caching.times import RealTime, Time
from agentkit.caching.track.ticket import Ticket
from agentkit.caching.track.tracker import CacheTracker
from agentkit.caching.verdict import Verdict
from agentkit.context.prices import Prices
from agentkit.errors import ModelError
from agentkit.events import CacheEvent, ModelEnd, ModelEvent, UsageEvent
from agentkit.models.base import ModelRequest, takes_tools
from agentkit.models.hosted.rate_headers import TellsHeaders, told
from agentkit.models.hosted.wire import Adapter, Closing, LayoutT, Refusing
from agentkit.models.rates import RateLimits
from agentkit.models.throttle import Throttle
from agentkit.models.wiretap import listeners
from agentkit.usage import Timing, Usage

_PING_AGAIN_S = 5.0
"""After a failed ping; it comes early enough for a few of them."""

_LOGGER = logging.getLogger("agentkit.caching")


class HostedModel(Generic[LayoutT]):
    """A model behind a provider's API, with its cache planned, watched and explained.

    All agents that are given the same object share what is known about the cache; agents that name
    the same model string are given the same. Usable from several event loops and threads.

    Args:
        adapter: speaks the provider's API.
        cache: how its cache is used.
        rates: how much may be sent at once and in a minute; what the provider says of its limits
            holds too.
        time: for tests; the machine's own by default.
    """

    def __init__(
        self,
        adapter: Adapter[LayoutT],
        *,
        cache: CacheOptions | None = None,
        rates: RateLimits | None = None,
        time: Time | None = None,
    ) -> None:
        self._adapter = adapter
        # Whether a class has a protocol's members takes long to find out.
        self._refusing = adapter if isinstance(adapter, Refusing) else None
        self._time = time or RealTime()
        self._cache = cache or CacheOptions()
        self._listed_row: PriceRow | None = None
        self._listed_on: date | None = None
        self._throttle = Throttle(
            rates, counts_cached=adapter.provider is not Provider.ANTHROPIC, time=self._time
        )
        if isinstance(adapter, TellsHeaders):
            adapter.on_headers = self._heard
        self._tracker = CacheTracker(
            provider=adapter.provider,
            model=adapter.model,
            label=adapter.label,
            options=self._cache,
            time=self._time,
        )

    @property
    def adapter(self) -> Adapter[LayoutT]:
        """What speaks the provider's API."""
        return self._adapter

    @property
    def cache(self) -> CacheOptions:
        """How its cache is used."""
        return self._cache

    @property
    def throttle(self) -> Throttle:
        """What requests wait for before they are sent; its `limits` may be set at any time."""
        return self._throttle

    @property
    def label(self) -> str:
        """The model string."""
        return self._adapter.label

    @property
    def siblings_start_together(self) -> bool:
        """True: `stream` itself lets one request go ahead where that is cheaper."""
        return True

    @property
    def takes_tools(self) -> bool:
        """Whether tools that come in mid-conversation are shown there; see `TakesTools`."""
        return takes_tools(self._adapter)

    def shows(self, block: Image | File) -> bool:
        """Whether the model can be shown an image or a document; see `agentkit.models.showing`."""
        says = getattr(self._adapter, "shows", None)
        return bool(says(block)) if callable(says) else True

    def prices(self) -> Prices:
        """Return today's prices, for decisions about a context and for limits on money."""
        policy, now = self._tracker.policy, self._time.now()
        return Prices(row=policy.prices or self._listed(policy, now), at=now)

    def context_edits(self) -> tuple[ContextEdit, ...]:
        """Return how the provider itself can shorten a conversation."""
        return context_edits(self._adapter.provider)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Ask the model; see `Model.stream`. `CacheEvent` comes before `ModelEnd`."""
        layout = self._adapter.layout(request)
        refused = () if self._refusing is None else self._refusing.refused_fields
        usage, note, last = Usage(), None, UsageEvent(usage=Usage())
        has_begun = False
        # Before it is planned: until it may be sent, neighbours go on writing.
        slot = await self._throttle.enter()
        ticket: Ticket | None = None
        try:
            ticket = await self._tracker.enter(layout, request, may_mark=not refused)
            body = self._adapter.body(layout, ticket.plan, request)
            for listener in listeners():
                listener.sent_body(request, layout.stable, body.data)
            clock = _VirtualClock.of(self._time)
            async with aclosing(self._adapter.stream(body)) as events:
                async for event in events:
                    if not has_begun:
                        ticket.response_began()
                        has_begun = True
                    if isinstance(event, UsageEvent):
                        event = slot.timed(event if clock is None else clock.timed(event))
                        last, note = event, event.cache_note or note
                        usage = usage.merge(event.usage)
                    elif isinstance(event, ModelEnd):
                        planned = last.first or usage
                        yield CacheEvent(ticket.finish(planned, note=note, parts=last.parts))
                    yield event
        except ModelError as error:
            self._throttle.failed(error)
            if ticket is not None and usage != Usage():
                # What was used until then is paid for, too; how much was written nobody says.
                used = replace(last.first or usage, output_tokens=None)
                yield CacheEvent(ticket.finish(used, note=note, parts=last.parts))
            if ticket is not None:
                ticket.abandon(outage=error.retryable)
            raise
        finally:
            if ticket is not None:
                ticket.abandon()
            slot.leave(last.first or usage)

    @asynccontextmanager
    async def kept_alive(
        self, request: ModelRequest, on_ping: Callable[[Usage, Timing, Verdict], None]
    ) -> AsyncIterator[None]:
        """Keep the request's prefix in the cache while the body of this context runs.

        For tools that take longer than the cache's lifetime. What a ping costs is told to
        `on_ping`; pings end where they would cost more than they save, or more than
        `CacheOptions.keep_alive_usd`.
        """
        ticket = self._tracker.last(request)
        if ticket is None:
            yield
            return
        tasks: list[asyncio.Task[None]] = []

        def start() -> None:
            tasks.append(asyncio.create_task(self._keep_alive(ticket, on_ping)))

        timer: asyncio.TimerHandle | None = None
        if isinstance(self._time, RealTime):
            # Most tools are done long before; a timer costs less than a task that sleeps.
            timer = asyncio.get_running_loop().call_later(ticket.quiet_s, start)
        else:
            start()
        try:
            yield
        finally:
            if timer is not None:
                timer.cancel()
            for task in tasks:
                await self._stopped(task)

    async def _stopped(self, task: asyncio.Task[None]) -> None:
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled() and (error := task.exception()) is not None:
            # The tools' results matter more than the price of the next prompt.
            _LOGGER.warning("%s: the prefix could not be kept alive", self.label, exc_info=error)

    async def aclose(self) -> None:
        """End what was made at the provider for this model, such as cached-content objects."""
        if isinstance(self._adapter, Closing):
            await self._adapter.aclose()

    def _heard(self, headers: Mapping[str, str]) -> None:
        self._throttle.told(told(headers, self._time.now()))

    def _listed(self, policy: Policy, now: datetime) -> PriceRow | None:
        """Return the price that a table of others has, where the policy has none; once a day."""
        day = now.date()
        if self._listed_on != day:
            found = self._cache.prices.price(policy, 0, now, model=self._adapter.model)
            source = Source(Evidence.PACKAGE, day)
            self._listed_row = (
                None
                if found is None
                else PriceRow(models=(policy.model,), rates=found.rates, source=source)
            )
            self._listed_on = day
        return self._listed_row

    async def _keep_alive(
        self, ticket: Ticket, on_ping: Callable[[Usage, Timing, Verdict], None]
    ) -> None:
        await self._time.sleep(ticket.quiet_s)
        while (wait_s := ticket.next_ping_s()) is not None:
            await self._time.sleep(wait_s)
            begun_at = self._time.now()
            layout = cast("LayoutT", ticket.layout)  # the adapter's own
            body = self._adapter.body(layout, ticket.plan, ticket.request)
            try:
                event = await self._adapter.touch(body)
            except ModelError as error:
                if not error.retryable:
                    raise
                await self._time.sleep(error.retry_after_s or _PING_AGAIN_S)
                continue
            if not isinstance(event, UsageEvent):
                return
            on_ping(event.usage, event.timing, ticket.pinged(event.usage, at=begun_at))

    def __repr__(self) -> str:
        return f"HostedModel({self.label!r})"


class _VirtualClock:
    """Times an answer in a time that is not the machine's; adapters know only that one."""

    def __init__(self, time: Time) -> None:
        self._time = time
        self._sent_at = time.now()
        self._ttft_s: float | None = None

    @staticmethod
    def of(time: Time) -> _VirtualClock | None:
        """Return a clock that starts now; None where the machine's own is right."""
        return None if isinstance(time, RealTime) else _VirtualClock(time)

    def timed(self, event: UsageEvent) -> UsageEvent:
        """Return the event with this clock's times; the first one comes with the first token."""
        passed_s = (self._time.now() - self._sent_at).total_seconds()
        if self._ttft_s is None:
            self._ttft_s = passed_s
        total_s = None if event.timing.total_s is None else passed_s
        return replace(event, timing=Timing(ttft_s=self._ttft_s, total_s=total_s))
