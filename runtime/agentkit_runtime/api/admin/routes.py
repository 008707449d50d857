"""`/admin/v1`: what an operator sees and does. Every endpoint needs a key with the admin role."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Mapping
from typing import Annotated, TypeVar

from fastapi import APIRouter, Depends, Query, Request, Response

from agentkit_runtime.api.admin import bodies, show
from agentkit_runtime.api.admin.actions import Actions, unknown
from agentkit_runtime.api.admin.events import EventEndpoint
from agentkit_runtime.api.admin.parts import AdminParts
from agentkit_runtime.api.admin.state import state_document
from agentkit_runtime.api.admin.wire import (
    ConfigDocument,
    Done,
    Ended,
    FlushDocument,
    MissDocument,
    PhaseDocument,
    PinDocument,
    PinList,
    PruneDocument,
    PublishedDocument,
    PublishedList,
    SessionList,
    StateDocument,
    TreeDocument,
)
from agentkit_runtime.api.caller import caller_of, require_admin
from agentkit_runtime.api.failure import ApiError
from agentkit_runtime.api.large import BodyRoute
from agentkit_runtime.api.site import Site
from agentkit_runtime.api.sse import answered, told
from agentkit_runtime.chat import DEFAULT_TENANT
from agentkit_runtime.governing.lifecycle import Lifecycle
from agentkit_runtime.kv.prune import ByTenant
from agentkit_runtime.kv.view import MAX_NODES

_LOG = logging.getLogger(__name__)

Limit = Annotated[int, Query(ge=1, le=MAX_NODES, description="Most entries of the answer.")]
Tenant = Annotated[str | None, Query(max_length=256, description="Only of this tenant.")]
WithText = Annotated[
    bool, Query(description="Show prompt text, of the key's own tenant; it is logged.")
]
Named = TypeVar("Named", str, str | None)


def admin_routes(parts: AdminParts) -> Callable[[Site], APIRouter]:
    """The group of endpoints, for `create_app(more=...)`."""
    return lambda site: AdminRoutes(site, parts).router


async def _admin(request: Request) -> None:
    require_admin(request)


class AdminRoutes:
    """The routes, bound to one server."""

    def __init__(self, site: Site, parts: AdminParts) -> None:
        self._site = site
        self._parts = parts
        self._actions = Actions(site)
        self._steering = self._actions.steering
        self.router = APIRouter(
            prefix="/admin/v1",
            dependencies=[Depends(_admin)],
            tags=["admin"],
            responses=_RESPONSES,
            route_class=BodyRoute,
        )
        for (path, method), endpoint in self._endpoints().items():
            self.router.add_api_route(path, endpoint, methods=[method], response_model=None)
        events = EventEndpoint(self._steering)
        self.router.add_api_route("/kv-events", events.stream, methods=["GET"], response_model=None)

    def _endpoints(self) -> Mapping[tuple[str, str], Callable[..., object]]:
        return {
            ("/state", "GET"): self.state,
            ("/tree", "GET"): self.tree,
            ("/tree/pin", "POST"): self.pin_branch,
            ("/tree/prune", "POST"): self.prune_branch,
            ("/sessions", "GET"): self.sessions,
            ("/pins", "GET"): self.pins,
            ("/pins", "POST"): self.add_pin,
            ("/pins/{handle}", "DELETE"): self.remove_pin,
            ("/published", "GET"): self.published,
            ("/published", "POST"): self.publish,
            ("/published/{handle}", "DELETE"): self.unpublish,
            ("/prewarm", "POST"): self.prewarm,
            ("/prune", "POST"): self.prune,
            ("/flush", "POST"): self.flush,
            ("/hints", "POST"): self.hint,
            ("/explain", "POST"): self.explain,
            ("/namespace-key", "POST"): self.rotate_key,
            ("/drain", "POST"): self.drain,
            ("/drain", "DELETE"): self.end_drain,
            ("/config", "GET"): self.config,
            ("/config", "PATCH"): self.change_config,
        }

    # -- looking -------------------------------------------------------------------------------

    async def state(
        self,
        history: Annotated[int, Query(ge=0, le=3_600, description="Most samples.")] = 120,
        since: Annotated[float, Query(description="Only samples after this Unix time.")] = 0.0,
    ) -> StateDocument:
        """Pool, tiers, scheduler, pressure, and what happened lately, second by second."""
        sampler = self._parts.sampler
        samples = [] if sampler is None else sampler.since(since, history)
        return state_document(self._site, self._parts, samples)

    async def tree(
        self,
        request: Request,
        limit: Limit = 300,
        depth: Annotated[int | None, Query(ge=0)] = None,
        tenant: Tenant = None,
        text: WithText = False,
    ) -> TreeDocument:
        """The part of the tree that was used last."""
        if text:
            _require_text(request, tenant)
        view = await self._steering.tree(
            limit=limit, depth=depth, tenant=self._known(tenant), with_tokens=text
        )
        tokenizer = self._site.service.tokenizer if text else None
        return await asyncio.to_thread(show.tree_document, view, tokenizer)

    async def sessions(self, limit: Limit = 300, tenant: Tenant = None) -> SessionList:
        """Sessions that are remembered; of each tenant the latest first."""
        sessions = await self._steering.sessions(limit=limit, tenant=self._known(tenant))
        return {"object": "list", "data": [show.session_document(one) for one in sessions]}

    async def explain(
        self, body: bodies.AdminExplain, request: Request, text: WithText = False
    ) -> MissDocument:
        """Why a chat completion of a tenant would not be read from the cache."""
        if text:
            _require_text(request, body.tenant)
        return await self._actions.explain(body, self._known(body.tenant), with_text=text)

    # -- pins, published prefixes, pre-warming -------------------------------------------------

    async def pins(self, tenant: Tenant = None) -> PinList:
        """All pins, oldest first."""
        return await self._actions.pins(self._known(tenant))

    async def add_pin(self, body: bodies.AddPin, request: Request) -> Response:
        """Compute a prefix where it is not cached, and keep it. Ends when the client leaves."""
        return await answered(request.receive, told(self._pinned(body)))

    async def _pinned(self, body: bodies.AddPin) -> PinDocument:
        done = await self._actions.prewarm(body, self._known(body.tenant), pin=True)
        assert done["pin"] is not None, "a pin was asked for"
        return done["pin"]

    async def pin_branch(self, body: bodies.PinBranch) -> PinDocument:
        """Keep the prefix that ends with a node of the tree; 409 where it is not there any more."""
        self._known(body.tenant)
        pin = await self._steering.pin_branch(**body.model_dump())
        return show.pin_document(pin, pin.ttl_s)

    async def remove_pin(self, handle: str) -> Ended:
        """End a pin; its tokens become ordinary cached ones."""
        return await self._actions.unpin(handle, None)

    async def published(self) -> PublishedList:
        """Prefixes that all tenants may read."""
        found = await self._steering.published()
        return {
            "object": "list",
            "data": [{"handle": one.handle, "tokens": one.tokens} for one in found],
        }

    async def publish(self, body: bodies.Prefix, request: Request) -> Response:
        """Let all tenants start from a prefix: nothing of it may be anybody's secret."""
        return await answered(request.receive, told(self._publish(body)))

    async def _publish(self, body: bodies.Prefix) -> PublishedDocument:
        prefix = self._actions.prefix(body, DEFAULT_TENANT)
        done = await self._site.service.prefixes.publish(prefix)
        return {"handle": done.handle, "tokens": done.tokens}

    async def unpublish(self, handle: str) -> Ended:
        """Publish a prefix no longer; what tenants have behind it is forgotten."""
        if not await self._site.service.prefixes.unpublish(handle):
            raise unknown("prefix")
        return {"handle": handle, "ended": True}

    async def prewarm(self, body: bodies.Prewarm, request: Request) -> Response:
        """Compute what requests of a tenant will share; no answer. Ends when the client leaves."""
        work = self._actions.prewarm(body, self._known(body.tenant), pin=body.pin)
        return await answered(request.receive, told(work))

    # -- forgetting ----------------------------------------------------------------------------

    async def prune(self, body: bodies.AdminPrune) -> PruneDocument:
        """Forget what a selector names; with `dry_run` only say what that would be."""
        if body.by not in ("pin", "namespace"):  # these name one whose tenant is not asked for
            self._known(body.tenant)
        return await self._actions.prune(body, body.tenant)

    async def prune_branch(self, body: bodies.PruneBranch) -> PruneDocument:
        """Forget a node of the tree and all behind it; 409 where it is not there any more."""
        self._known(body.tenant)
        return show.prune_document(await self._steering.prune_branch(**body.model_dump()))

    async def flush(self, body: bodies.Flush, request: Request) -> FlushDocument:
        """Forget all of a tenant, or all there is: what is cached, and stored responses."""
        self._require_flushable(body)
        request.app.state.responses.forget(body.tenant)
        if body.tenant is None:
            return {"freed_tokens": await self._steering.clear()}
        report = await self._site.service.prefixes.prune(ByTenant(body.tenant))
        return {"freed_tokens": report.freed_tokens}

    async def rotate_key(self, body: bodies.RotateKey, request: Request) -> Done:
        """Separate tenants by another secret: all caches start cold. The key is not told."""
        key = secrets.token_bytes(32) if body.key is None else bytes.fromhex(body.key)
        rotate = self._parts.rotate_key or self._site.service.rotate_namespace_key
        try:
            await asyncio.to_thread(rotate, key)
        except ValueError as error:
            raise ApiError(str(error), param="key") from None
        _LOG.warning("the namespace key was replaced by %s", _who(request))
        return {"done": True}

    # -- steering ------------------------------------------------------------------------------

    async def hint(self, body: bodies.AdminHint) -> Done:
        """Tell the cache what is expected of a tenant."""
        return await self._actions.hint(body, self._known(body.tenant))

    async def drain(self, request: Request) -> PhaseDocument:
        """Let no new request in; those inside go on, and `inside` says how many they are."""
        lifecycle = self._lifecycle()
        lifecycle.drain()
        _LOG.warning("a drain was begun by %s", _who(request))
        return {"phase": lifecycle.phase, "inside": lifecycle.n_inside}

    async def end_drain(self, request: Request) -> PhaseDocument:
        """Let requests in again."""
        lifecycle = self._lifecycle()
        if lifecycle.phase not in ("draining", "ready"):
            raise ApiError(
                f"the server is {lifecycle.phase}, not draining", status=409, code="not_draining"
            )
        lifecycle.ready()
        _LOG.warning("a drain was ended by %s", _who(request))
        return {"phase": lifecycle.phase, "inside": lifecycle.n_inside}

    async def config(self) -> ConfigDocument:
        """What can be changed while the server runs."""
        return {
            "tenant_weights": await self._steering.tenant_weights(),
            "kept": "process" if self._parts.tenants is None else "key_store",
        }

    async def change_config(self, body: bodies.Config) -> ConfigDocument:
        """Change it; what is left out stays. Weights that are given replace all others."""
        if body.tenant_weights is not None:
            if self._parts.tenants is not None:
                await asyncio.to_thread(self._parts.tenants.set_weights, body.tenant_weights)
            else:
                await self._set_weights(body.tenant_weights)
        return await self.config()

    async def _set_weights(self, weights: Mapping[str, float]) -> None:
        try:
            await self._steering.set_tenant_weights(weights)
        except ValueError as error:
            raise ApiError(str(error), param="tenant_weights") from None

    def _known(self, tenant: Named) -> Named:
        """A tenant that was named, or None. Raises `ApiError` (404) for a name that is nobody's."""
        if tenant is not None and self._parts.tenants is not None:
            self._parts.tenants.require(tenant)
        return tenant

    def _require_flushable(self, body: bodies.Flush) -> None:
        if body.unknown:
            return
        try:
            self._known(body.tenant)
        except ApiError as error:
            error.message += " (to forget what a tenant without keys has left: unknown: true)"
            raise

    def _lifecycle(self) -> Lifecycle:
        if self._parts.lifecycle is None:
            raise ApiError("this server cannot be drained", status=409, code="no_lifecycle")
        return self._parts.lifecycle


def _who(request: Request) -> str:
    return f"key {caller_of(request).key_id or '(none)'}"


def _require_text(request: Request, tenant: str | None) -> None:
    """Let pass who may read what `tenant` said: its own users, with an admin's key. It is logged.

    To steer a server is not to read its tenants' prompts: a key that may do both says so.
    """
    caller = caller_of(request)
    if "user" not in caller.roles or tenant != caller.tenant:
        raise ApiError(
            "prompt text is shown to keys that have the admin and the user role, and of their own "
            "tenant: name it, or leave text out",
            status=403,
            code="permission_denied",
        )
    _LOG.warning("%s reads prompt text of tenant %r", _who(request), tenant)


_RESPONSES: dict[int | str, dict[str, object]] = {
    400: {"description": "The body or a parameter is wrong; `error.param` names it."},
    401: {"description": "No key, or an unknown one."},
    403: {"description": "The key has no admin role."},
    404: {"description": "There is no such thing here."},
    409: {"description": "It cannot be done in the server's present state."},
    503: {"description": "The engine is stopping."},
}
