"""`/v1beta/cachedContents`: create, get, list, update and delete."""

from __future__ import annotations

import re
from datetime import datetime
from decimal import Decimal
from typing import Any

from agentkit.caching.policy import plain_name
from agentkit.caching.request import Tenant
from agentkit.caching.simulate import CachedContent, Refused, SimulatedGemini
from agentkit.fake.api import HttpCall
from agentkit.fake.fields import JsonObject, Problem, objects_of, text_of
from agentkit.fake.gemini.parse import field, request_of


class Contents:
    """The cached-content objects of all tenants, with what only the API keeps of them."""

    def __init__(self, cache: SimulatedGemini) -> None:
        self._cache = cache
        self._extra: dict[str, tuple[str | None, datetime]] = {}
        """Display name, and when it was last changed."""
        self._creation: list[Decimal | None] = []
        self._bodies: dict[str, JsonObject] = {}

    def create(self, call: HttpCall, now: datetime) -> JsonObject:
        """Make an object.

        Raises:
            Problem: the API refuses it.
        """
        body = call.body
        model = text_of(body, "model")
        contents = objects_of(body.get("contents"), "contents")
        if "contents" in body and not contents:
            raise Problem(
                "* CreateCachedContentRequest.contents: contents must not be empty; leave "
                "the field out"
            )
        if not any(field(body, name) for name in ("contents", "systemInstruction", "tools")):
            raise Problem("Cached content needs contents, system_instruction or tools")
        named = HttpCall(
            path=call.path,
            headers=call.headers,
            body=body,
            tenant=call.tenant,
            model=plain_name(model),
        )
        content = self._cache.create(request_of(named, contents), ttl_s=_ttl_s(body, now))
        if isinstance(content, Refused):
            raise Problem(content.message, status=content.status)
        self._extra[content.name] = (field(body, "displayName"), now)
        self._bodies[content.name] = body
        self._creation.append(
            None if content.creation_cost is None else content.creation_cost.total
        )
        return self._json(content)

    def get(self, name: str, tenant: Tenant) -> JsonObject:
        """Return an object.

        Raises:
            Problem: it is not there, or not any more.
        """
        return self._json(_found(self._cache.get(name, tenant)))

    def all(self, tenant: Tenant) -> JsonObject:
        """Return all objects of a tenant; empty lists are left out of the JSON."""
        contents = [self._json(content) for content in self._cache.living(tenant)]
        return {"cachedContents": contents} if contents else {}

    def update(self, name: str, call: HttpCall, now: datetime) -> JsonObject:
        """Set an object's life.

        Raises:
            Problem: it is not there, or something else is to be changed.
        """
        ttl_s = _ttl_s(call.body, now)
        if ttl_s is None:
            raise Problem("Only ttl or expire_time of a cached content can be updated")
        if ttl_s <= 0:
            raise Problem("ttl must be above 0; delete the cached content instead")
        content = _found(self._cache.update(name, ttl_s=ttl_s, tenant=call.tenant))
        self._extra[name] = (self._extra[name][0], now)
        return self._json(content)

    def delete(self, name: str, tenant: Tenant) -> JsonObject:
        """End an object.

        Raises:
            Problem: it is not there, or not any more.
        """
        _found(self._cache.delete(name, tenant))
        return {}

    def front(self, name: str) -> JsonObject:
        """Return what an object was made of; nothing, if there never was such an object."""
        return self._bodies.get(name, {})

    def cost(self) -> Decimal | None:
        """Return what making and keeping all objects has cost, in USD; None if it is not known."""
        costs = [*self._creation, *map(self._cache.storage_cost, self._extra)]
        known = [cost for cost in costs if cost is not None]
        return sum(known, Decimal(0)) if len(known) == len(costs) else None

    def _json(self, content: CachedContent) -> dict[str, Any]:
        display_name, updated = self._extra[content.name]
        found = {
            "name": content.name,
            "model": f"models/{content.model}",
            "createTime": _time(content.created_at),
            "updateTime": _time(updated),
            "expireTime": _time(content.expires_at),
            "usageMetadata": {"totalTokenCount": content.n_tokens},
        }
        return found if display_name is None else {**found, "displayName": display_name}


def _found(content: CachedContent | Refused) -> CachedContent:
    if isinstance(content, Refused):
        raise Problem(content.message, status=content.status)
    return content


def _ttl_s(body: JsonObject, now: datetime) -> float | None:
    ttl, expires = body.get("ttl"), field(body, "expireTime")
    if ttl is not None:
        seconds = re.fullmatch(r"(\d+(?:\.\d+)?)s", str(ttl))
        if seconds is None:
            raise Problem(f"Invalid value at 'cached_content.ttl': {ttl!r}; write e.g. '300s'")
        return float(seconds[1])
    if expires is None:
        return None
    try:
        at = datetime.fromisoformat(str(expires))
    except ValueError:
        raise Problem(f"Invalid value at 'cached_content.expire_time': {expires!r}") from None
    return (at - now).total_seconds()


def _time(at: datetime) -> str:
    return at.isoformat().replace("+00:00", "Z")
