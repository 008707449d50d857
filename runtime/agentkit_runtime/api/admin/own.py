"""`/v1/agentkit`: what a tenant does with its own prefixes. The tenant is the key's, always."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

from fastapi import APIRouter, Request, Response

from agentkit_runtime.api.admin import bodies
from agentkit_runtime.api.admin.actions import Actions
from agentkit_runtime.api.admin.wire import (
    Done,
    Ended,
    MissDocument,
    PinList,
    PrewarmedDocument,
    PruneDocument,
)
from agentkit_runtime.api.caller import require_user
from agentkit_runtime.api.large import BodyRoute
from agentkit_runtime.api.site import Site, new_id
from agentkit_runtime.api.sse import answered, told
from agentkit_runtime.chat import ChatFinished


def own_routes(site: Site) -> APIRouter:
    """The group of endpoints, for `create_app(more=...)`."""
    return OwnRoutes(site).router


class OwnRoutes:
    """The routes, bound to one server."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._actions = Actions(site)
        self.router = APIRouter(
            prefix="/v1/agentkit",
            tags=["agentkit"],
            responses=_RESPONSES,
            route_class=BodyRoute,
        )
        for (path, method), endpoint in self._endpoints().items():
            self.router.add_api_route(path, endpoint, methods=[method], response_model=None)

    def _endpoints(self) -> Mapping[tuple[str, str], Callable[..., object]]:
        return {
            ("/prewarm", "POST"): self.prewarm,
            ("/pins", "GET"): self.pins,
            ("/pins/{handle}", "DELETE"): self.remove_pin,
            ("/prune", "POST"): self.prune,
            ("/hints", "POST"): self.hint,
            ("/explain", "POST"): self.explain,
        }

    async def prewarm(self, body: bodies.OwnPrewarm, request: Request) -> Response:
        """Compute what requests will share; no answer. Let in and counted like any request, and
        ended at once when the client disconnects."""
        return await answered(request.receive, told(self._prewarmed(body, request)))

    async def _prewarmed(self, body: bodies.OwnPrewarm, request: Request) -> PrewarmedDocument:
        tenant = require_user(request).tenant
        chat = self._actions.prefix(body, tenant)
        fill = dataclasses.replace(chat, sampling=dataclasses.replace(chat.sampling, max_tokens=0))
        answer = await self._site.open(request, fill, id=new_id("prewarm-"))
        (events,) = await answer.collect()
        done = await self._actions.prewarm(body, tenant, pin=body.pin)
        finished = events[-1]
        assert isinstance(finished, ChatFinished), "the last event of an answer"
        return {**done, "cached_tokens": min(done["tokens"], finished.stats.cached_tokens)}

    async def pins(self, request: Request) -> PinList:
        """One's own pins, oldest first."""
        return await self._actions.pins(require_user(request).tenant)

    async def remove_pin(self, handle: str, request: Request) -> Ended:
        """End one's own pin; its tokens become ordinary cached ones."""
        return await self._actions.unpin(handle, require_user(request).tenant)

    async def prune(self, body: bodies.OwnPrune, request: Request) -> PruneDocument:
        """Forget one's own; with `dry_run` only say what that would be."""
        return await self._actions.prune(body, require_user(request).tenant, own=True)

    async def hint(self, body: bodies.Hint, request: Request) -> Done:
        """Tell the cache what is expected of one's own sessions and tags."""
        return await self._actions.hint(body, require_user(request).tenant)

    async def explain(self, body: bodies.Explain, request: Request) -> MissDocument:
        """Why this chat completion would not be read from the cache, were it sent now."""
        tenant = require_user(request).tenant
        async with self._site.looking(request):
            return await self._actions.explain(body, tenant, with_text=True)


_RESPONSES: dict[int | str, dict[str, object]] = {
    400: {"description": "The body is wrong; `error.param` names the field."},
    401: {"description": "No key, or an unknown one."},
    403: {"description": "The key has no user role."},
    404: {"description": "There is no such thing of yours."},
    409: {"description": "It cannot be done now: too much would be pinned."},
    429: {"description": "Too much at once; Retry-After says when to come again."},
    503: {"description": "The engine is stopping."},
}
