"""Cached-content objects: prompt fronts that Gemini keeps for as long as they are paid for.

The planner says which front is worth an object. Here it is made, once for all who want it, used
again, kept alive while it is in use, and deleted at the end. An object that nobody uses ends by
itself: its life is never longer than the plan's, counted from its last renewal.

Whatever goes wrong with an object costs money and no request: its front is sent in full instead.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from agentkit.caching.ledger import Charge
from agentkit.caching.policy import Rates
from agentkit.caching.times import Time
from agentkit.errors import ModelError, RequestRefused
from agentkit.models.hosted.gemini.front import Front, FrontKey, ObjectApi
from agentkit.models.hosted.gemini.storage import Charges, ObjectLife, StorageUse, totals, use_of

_LOGGER = logging.getLogger("agentkit.models.gemini")

_SPARE_S = 5.0
"""An object that ends sooner is not used: the request may arrive too late."""
_FAILED_S = 15.0
"""First wait after a create that failed; doubles with each failure in a row."""
_REFUSED_S = 600.0
"""The same after one that was refused, for example because the front is too short."""
_LONGEST_WAIT_S = 6 * 3_600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Object:
    name: str
    ttl_s: int
    life: ObjectLife


@dataclass(frozen=True, slots=True, kw_only=True)
class _Failed:
    times: int
    until: datetime


class CachedContents:
    """All objects of one adapter. For one event loop at a time.

    Args:
        api: makes and ends objects.
        time: tells the time; a virtual one in tests.
        takes: whether the API may take a front; what it surely refuses is not sent.
        rates: prices of the model at a time, for what objects cost; None: not known.
        most: how many objects may live at once. The one that ends first goes when more are wanted.
    """

    def __init__(
        self,
        api: ObjectApi,
        *,
        time: Time,
        takes: Callable[[Front, datetime], bool],
        rates: Callable[[int, datetime], Rates | None],
        most: int = 256,
    ) -> None:
        self._api = api
        self._time = time
        self._takes = takes
        self._rates = rates
        self._most = most
        self._objects: dict[FrontKey, _Object] = {}
        self._failed: dict[FrontKey, _Failed] = {}
        self._running: dict[FrontKey, asyncio.Task[str | None]] = {}
        self._ended: dict[tuple[str, str], StorageUse] = {}
        self._charges = Charges()
        self._closed = False

    async def acquire(self, front: Front) -> str | None:
        """Return the name of a living object with this front; None: send the front in full.

        Who comes while another makes or renews the same object waits for it. Cancelling one who
        waits changes nothing for the others.
        """
        found = self._objects.get(front.key)
        if found is not None and self._left_s(found) >= max(_SPARE_S, found.ttl_s / 2):
            return found.name
        if found is not None and self._left_s(found) > 0:
            return await self._once(front.key, lambda: self._renew(front.key, found, front.ttl_s))
        if not self._may_create(front):
            return None
        return await self._once(front.key, lambda: self._create(front))

    async def renew(self, key: FrontKey) -> bool:
        """Let an object live on, from now. Returns whether there is one."""
        found = self._objects.get(key)
        if found is None or self._left_s(found) <= 0:
            return False
        return await self._once(key, lambda: self._renew(key, found, found.ttl_s)) is not None

    def forget(self, key: FrontKey, name: str) -> None:
        """The API does not know the object any more; the next request makes another."""
        found = self._objects.get(key)
        if found is not None and found.name == name:
            self._end(key, self._time.now())

    def storage(self) -> tuple[StorageUse, ...]:
        """Return what objects have used and cost until now, by model and tenant."""
        now = self._time.now()
        living = [use_of(found.life, now) for found in self._objects.values()]
        return tuple(totals([*self._ended.values(), *living]).values())

    def charges(self) -> tuple[Charge, ...]:
        """Return what objects have cost since this was last asked, for `Ledger.charge`."""
        return tuple(self._charges.since_last(self.storage(), self._time.now()))

    async def aclose(self) -> None:
        """Delete all objects. Creates that are under way are waited for, and deleted too."""
        self._closed = True
        loop = asyncio.get_running_loop()
        running = [task for task in self._running.values() if task.get_loop() is loop]
        await asyncio.gather(*running, return_exceptions=True)
        await asyncio.gather(*(self._delete(key) for key in tuple(self._objects)))

    def _may_create(self, front: Front) -> bool:
        now = self._time.now()
        failed = self._failed.get(front.key)
        if self._closed or (failed is not None and now < failed.until):
            return False
        return self._takes(front, now)

    async def _once(
        self, key: FrontKey, work: Callable[[], Coroutine[object, object, str | None]]
    ) -> str | None:
        """Run the work for a key unless it runs already, and return what it returns.

        It is a task of its own: a create that is abandoned half-way may have made an object that
        nobody would know of, and would be paid for.
        """
        loop = asyncio.get_running_loop()
        task = self._running.get(key)
        if task is not None and task.get_loop() is not loop:
            if not task.get_loop().is_closed():
                return None  # another thread's; waiting for it is not possible from here
            task = None
        if task is None:
            task = loop.create_task(work(), name=f"cached content {key.digest[:12]}")
            self._running[key] = task
            task.add_done_callback(lambda done: self._over(key, done))
        return await asyncio.shield(task)

    def _over(self, key: FrontKey, task: asyncio.Task[str | None]) -> None:
        if self._running.get(key) is task:
            del self._running[key]

    async def _create(self, front: Front) -> str | None:
        await self._make_room()
        created_at = self._time.now()
        try:
            created = await self._api.create(front)
        except ModelError as error:
            self._note_failure(front.key, error)
            return None
        self._failed.pop(front.key, None)
        n_tokens = front.n_tokens if created.n_tokens is None else created.n_tokens
        life = ObjectLife(
            model=front.key.model,
            tenant=front.key.tenant,
            n_tokens=n_tokens,
            created_at=created_at,
            ends_at=created_at + timedelta(seconds=front.ttl_s),
            rates=self._rates(n_tokens, created_at),
        )
        self._objects[front.key] = _Object(name=created.name, ttl_s=front.ttl_s, life=life)
        return created.name

    async def _renew(self, key: FrontKey, found: _Object, ttl_s: int) -> str | None:
        # Reckoned from before the call, by our own clock: sooner than the API's end, never later.
        now = self._time.now()
        try:
            await self._api.renew(found.name, ttl_s)
        except RequestRefused:
            self._end(key, self._time.now())
            return None
        except ModelError as error:
            _LOGGER.warning("cached content %r could not be renewed", found.name, exc_info=error)
            return found.name if self._left_s(found) >= _SPARE_S else None
        if self._objects.get(key) is not found:
            return None  # deleted meanwhile
        life = replace(found.life, ends_at=now + timedelta(seconds=ttl_s))
        self._objects[key] = replace(found, ttl_s=ttl_s, life=life)
        return found.name

    async def _delete(self, key: FrontKey) -> None:
        found = self._objects.get(key)
        if found is None or self._left_s(found) <= 0:
            self._end(key, self._time.now())
            return
        ends_at = found.life.ends_at
        try:
            await self._api.delete(found.name)
            ends_at = self._time.now()
        except ModelError as error:
            _LOGGER.warning(
                "cached content %r could not be deleted, it ends at %s",
                found.name,
                ends_at,
                exc_info=error,
            )
        finally:
            self._end(key, ends_at)

    async def _make_room(self) -> None:
        for key in [key for key, found in self._objects.items() if self._left_s(found) <= 0]:
            self._end(key, self._objects[key].life.ends_at)
        while len(self._objects) >= self._most:
            await self._delete(min(self._objects, key=lambda k: self._objects[k].life.ends_at))

    def _note_failure(self, key: FrontKey, error: ModelError) -> None:
        times = self._failed[key].times + 1 if key in self._failed else 1
        first_s = _REFUSED_S if isinstance(error, RequestRefused) else _FAILED_S
        wait_s = min(_LONGEST_WAIT_S, first_s * 2 ** (times - 1))
        wait_s = max(wait_s, error.retry_after_s or 0.0)
        self._failed[key] = _Failed(times=times, until=self._time.now() + timedelta(seconds=wait_s))
        while len(self._failed) > 4 * self._most:
            del self._failed[next(iter(self._failed))]
        _LOGGER.warning(
            "no cached content was created for %s; the next attempt is in %.0f s",
            key.model,
            wait_s,
            exc_info=error,
        )

    def _end(self, key: FrontKey, at: datetime) -> None:
        found = self._objects.pop(key, None)
        if found is not None:
            life = replace(found.life, ends_at=min(at, found.life.ends_at))
            use = use_of(life, life.ends_at)
            self._ended = totals([*self._ended.values(), use])

    def _left_s(self, found: _Object) -> float:
        return (found.life.ends_at - self._time.now()).total_seconds()
