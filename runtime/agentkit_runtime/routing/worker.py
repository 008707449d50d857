"""What routers of SGLang's ecosystem ask a worker about itself.

They know a worker by `/server_info` and `/model_info`, and balance by `/v1/loads`; field names are
theirs, and fields that would mean nothing here are left out. Where these endpoints are refused (a
router without an admin key) routers go on without them. Routers of vLLM's ecosystem ask for nothing
but `/health`, `/v1/models`, `/metrics` and `/v1/chat/completions/render`.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TypedDict

from fastapi import APIRouter, Depends, Request

from agentkit_runtime.api.caller import require_admin
from agentkit_runtime.api.site import Site


class ServerInfo(TypedDict):
    """`GET /server_info`."""

    model_id: str
    served_model_name: str
    context_length: int
    max_total_tokens: int


class ModelInfo(TypedDict):
    """`GET /model_info`."""

    model_path: str
    is_generation: bool


class Load(TypedDict):
    """What one engine has to do. Tokens are those of the KV pool; ratios are from 0 to 1."""

    dp_rank: int
    num_running_reqs: int
    num_waiting_reqs: int
    num_waiting_uncached_tokens: int
    num_total_reqs: int
    num_used_tokens: int
    max_total_num_tokens: int
    token_usage: float
    cache_hit_rate: float


class Loads(TypedDict):
    """`GET /v1/loads`."""

    timestamp: str
    dp_rank_count: int
    loads: list[Load]


def worker_routes(site: Site) -> APIRouter:
    """The group of endpoints, for `create_app(more=...)`. They need a key with the admin role."""
    router = APIRouter(dependencies=[Depends(_admin)], tags=["routers"], responses=_RESPONSES)

    async def server_info() -> ServerInfo:
        """Which model this is, and how much fits."""
        return {
            "model_id": site.model,
            "served_model_name": site.model,
            "context_length": site.service.context_tokens,
            "max_total_tokens": site.service.stats().total_slots,
        }

    async def model_info() -> ModelInfo:
        """The model."""
        return {"model_path": site.model, "is_generation": True}

    async def loads() -> Loads:
        """What there is to do now."""
        now = datetime.fromtimestamp(site.clock(), UTC)
        return {"timestamp": now.isoformat(), "dp_rank_count": 1, "loads": [_load(site)]}

    router.add_api_route("/server_info", server_info, methods=["GET"], response_model=None)
    router.add_api_route("/model_info", model_info, methods=["GET"], response_model=None)
    router.add_api_route("/v1/loads", loads, methods=["GET"], response_model=None)
    return router


async def _admin(request: Request) -> None:
    require_admin(request)


def _load(site: Site) -> Load:
    stats = site.service.stats()
    # What came during a step is not queued yet: routers send nothing for seconds to a worker of
    # which they once saw a handful wait.
    n_waiting = sum(stats.scheduler.waiting.values())
    return {
        "dp_rank": 0,
        "num_running_reqs": stats.running,
        "num_waiting_reqs": n_waiting,
        "num_waiting_uncached_tokens": stats.scheduler.waiting_tokens,
        "num_total_reqs": stats.running + n_waiting,
        "num_used_tokens": stats.held_slots,
        "max_total_num_tokens": stats.total_slots,
        "token_usage": stats.held_slots / stats.total_slots,
        "cache_hit_rate": stats.hit_tokens / max(1, stats.prompt_tokens),
    }


_RESPONSES: dict[int | str, dict[str, object]] = {
    401: {"description": "No key, or an unknown one."},
    403: {"description": "The key has no admin role."},
}
