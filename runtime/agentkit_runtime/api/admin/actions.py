"""What both groups of endpoints do: for any tenant, or for one's own."""

from __future__ import annotations

from agentkit_runtime.api.admin import bodies, decode, show
from agentkit_runtime.api.admin.wire import (
    Done,
    Ended,
    MissDocument,
    PinList,
    PrewarmedDocument,
    PruneDocument,
)
from agentkit_runtime.api.failure import ApiError
from agentkit_runtime.api.site import Site, new_id
from agentkit_runtime.chat import ChatRequest
from agentkit_runtime.steering import Steering


class Actions:
    """Pre-warming, pins, pruning, hints and reports on one server, for a tenant that is given."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._prefixes = site.service.prefixes
        self.steering = Steering(self._prefixes.engine)

    def prefix(self, body: bodies.Prefix, tenant: str) -> ChatRequest:
        """The request whose beginning is meant."""
        return decode.prefix_request(
            body, self._site.service, tenant=tenant, request_id=new_id("prefix-")
        )

    async def prewarm(
        self, body: bodies.PinnedPrefix, tenant: str, *, pin: bool
    ) -> PrewarmedDocument:
        """Compute a prefix, and perhaps pin it."""
        done = await self._prefixes.prewarm(
            self.prefix(body, tenant), pin=pin, ttl_s=body.ttl_s, name=body.name
        )
        return show.prewarmed_document(done)

    async def pins(self, tenant: str | None) -> PinList:
        """The pins of a tenant, or all."""
        pins = await self.steering.pins(tenant)
        return {"object": "list", "data": [show.pin_document(*pin) for pin in pins]}

    async def unpin(self, handle: str, tenant: str | None) -> Ended:
        """End a pin (of `tenant`, if that is given)."""
        if not await self._prefixes.unpin(handle, tenant=tenant):
            raise unknown("pin")
        return {"handle": handle, "ended": True}

    async def prune(self, body: bodies.Prune, tenant: str, *, own: bool = False) -> PruneDocument:
        """Forget, or with `dry_run` only look. With `own`, a pin must be the tenant's."""
        selector = decode.selector(body, tenant)
        if own and body.by == "pin":
            await self._require_own_pin(body.pin, tenant)
        try:
            if selector is None:
                prefix = bodies.Prefix(messages=body.messages or [], tools=body.tools)
                request = self.prefix(prefix, tenant)
                report = await self._prefixes.prune_prefix(request, dry_run=body.dry_run)
            else:
                report = await self._prefixes.prune(selector, dry_run=body.dry_run)
        except LookupError:
            raise unknown("pin") from None
        except ValueError as error:  # a published prefix would go
            raise ApiError(str(error), status=409, code="published") from error
        return show.prune_document(report)

    async def hint(self, body: bodies.Hint, tenant: str) -> Done:
        """Tell the cache what is expected."""
        await self._prefixes.hint(decode.hint(body, tenant))
        return {"done": True}

    async def explain(self, body: bodies.Explain, tenant: str, *, with_text: bool) -> MissDocument:
        """Why a request would not be read from the cache."""
        if body.model:
            self._site.check_model(body.model)
        request = decode.explain_request(
            body, self._site.service, tenant=tenant, request_id=new_id("explain-")
        )
        report = await self._prefixes.explain(request)
        return show.miss_document(report, with_text=with_text)

    async def _require_own_pin(self, handle: str | None, tenant: str) -> None:
        pins = await self._prefixes.pins(tenant)
        if handle not in {pin.handle for pin in pins}:
            raise unknown("pin")


def unknown(what: str) -> ApiError:
    """There is none. What was asked for is not repeated: it may be another tenant's."""
    return ApiError(
        f"there is no such {what} here; it may have ended", status=404, code=f"{what}_not_found"
    )
