"""Shapes of the documents of the admin API, as TypedDicts. Times are Unix seconds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NotRequired, TypedDict


class NodeDocument(TypedDict):
    """A node of the tree; see `kv.view.NodeView`."""

    id: int
    parent: int | None
    tenant: str
    start: int
    tokens: int
    hits: int
    uses_ago: int
    locks: int
    locked: bool
    pinned: bool
    pins: list[str]
    published: bool
    sessions: list[str]
    tags: list[str]
    children: int
    medium: str
    text: NotRequired[str]


class TreeDocument(TypedDict):
    """`GET /admin/v1/tree`: parents before their children, what was used last first."""

    object: str
    namespaces: int
    total_tokens: int
    complete: bool
    nodes: list[NodeDocument]


class SessionDocument(TypedDict):
    """A session; see `kv.view.SessionView`."""

    tenant: str
    session: str | None
    tags: list[str]
    expected: bool
    done: bool
    tokens: int
    requests: int


class SessionList(TypedDict):
    """`GET /admin/v1/sessions`."""

    object: str
    data: list[SessionDocument]


class PinDocument(TypedDict):
    """A pin."""

    handle: str
    tenant: str
    name: str | None
    tokens: int
    ttl_s: float | None
    expires_in_s: float | None


class PinList(TypedDict):
    """`GET /admin/v1/pins`."""

    object: str
    data: list[PinDocument]


class PublishedDocument(TypedDict):
    """A published prefix."""

    handle: str
    tokens: int


class PublishedList(TypedDict):
    """`GET /admin/v1/published`."""

    object: str
    data: list[PublishedDocument]


class Ended(TypedDict):
    """Whether there was something to end."""

    handle: str
    ended: bool


class PrewarmedDocument(TypedDict):
    """What a pre-warming did."""

    tokens: int
    cached_tokens: int
    pin: PinDocument | None


class PruneDocument(TypedDict):
    """What a prune did, or with `dry_run` would do."""

    freed_tokens: int
    condemned_tokens: int
    nodes: int
    pins: int
    dry_run: bool


class FlushDocument(TypedDict):
    """What a flush freed; what is in use goes when it no longer is."""

    freed_tokens: int


class MissDocument(TypedDict):
    """Why a prompt would not be read from the cache; see `miss.MissReport`.

    The texts are there for one's own tenant, and for an admin who asks for them.
    """

    prompt_tokens: int
    cached_tokens: int
    public_tokens: int
    cause: str
    place: str | None
    role: str | None
    detail: NotRequired[str]
    before: NotRequired[str]
    asked: NotRequired[str]
    cached: NotRequired[str]


class Done(TypedDict):
    """An order was carried out."""

    done: bool


class PhaseDocument(TypedDict):
    """`POST` and `DELETE /admin/v1/drain`: where the server is, and who is still inside."""

    phase: str
    inside: int


class ConfigDocument(TypedDict):
    """`GET` and `PATCH /admin/v1/config`: what can be changed while the server runs.

    `kept` says where: `key_store` is for good, `process` until the server ends.
    """

    tenant_weights: dict[str, float]
    kept: Literal["key_store", "process"]


class PoolDocument(TypedDict):
    """The KV pool, in tokens: free + cached + held = total."""

    total: int
    free: int
    cached: int
    held: int
    pinned: int
    bytes_per_token: int | None
    kv_dtype: str | None


TiersDocument = Mapping[str, int]
"""Host memory and disk behind the pool: the fields of `kv.tiers.stats.TierStats`."""


class WaitingDocument(TypedDict):
    """Requests that wait, by class."""

    batch: int
    normal: int
    interactive: int


class SchedulerDocument(TypedDict):
    """What runs and what waits; counts are since start."""

    running: int
    prefilling: int
    waiting: WaitingDocument
    following: int
    loading: int
    oldest_wait_s: float
    preemptions: int
    late: int


class PressureDocument(TypedDict):
    """How close the engine is to its limits, from 0 to 1; see `governing.pressure`."""

    index: float
    slots: float
    queue: float
    wait: float
    cause: str


class CountsDocument(TypedDict):
    """Tokens and requests since start."""

    prompt_tokens: int
    hit_tokens: int
    hit_ratio: float | None
    restored_tokens: int
    public_tokens: int
    evicted_tokens: int
    computed_tokens: int
    generated_tokens: int
    ended: dict[str, int]


class SampleDocument(TypedDict):
    """The server at one moment, and what happened since the sample before."""

    time_s: float
    interval_s: float
    running: int
    waiting: int
    free: int
    cached: int
    held: int
    pinned: int
    host_blocks: int
    disk_blocks: int
    prompt_tokens: int
    hit_tokens: int
    prefill_tokens: int
    generated_tokens: int
    evicted_tokens: int
    lost_tokens: int
    warm_requests: int
    warm_ttft_s: float
    cold_requests: int
    cold_ttft_s: float


class StateDocument(TypedDict):
    """`GET /admin/v1/state`: for dashboards that poll."""

    object: str
    model: str
    time_s: float
    started_s: float
    healthy: bool
    phase: str | None
    pool: PoolDocument
    tiers: TiersDocument | None
    scheduler: SchedulerDocument
    pressure: PressureDocument | None
    counts: CountsDocument
    history: list[SampleDocument]
