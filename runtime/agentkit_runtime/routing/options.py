"""What a server tells routers, as one value."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agentkit_runtime.routing.endpoints import require_endpoint

if TYPE_CHECKING:
    from agentkit_runtime.routing.publisher import KvEventPublisher

KEPT_EVENTS = 10_000
"""KV events that a server keeps for those who follow them over HTTP and were away."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutingOptions:
    """Where KV events are published. Raises ValueError for what is no address."""

    kv_events: str | None = None
    """ZeroMQ address of the publisher, such as tcp://127.0.0.1:5557; None publishes nothing."""
    replay: str | None = None
    """Address where missed batches can be asked for."""
    topic: str = ""
    """First frame of each batch."""

    def __post_init__(self) -> None:
        for endpoint in (self.kv_events, self.replay):
            if endpoint is not None:
                require_endpoint(endpoint)
        if self.replay is not None and self.kv_events is None:
            raise ValueError("--kv-events-replay does nothing without --kv-events: give both")
        if self.topic and self.kv_events is None:
            raise ValueError("--kv-events-topic does nothing without --kv-events: give both")


@contextmanager
def publishing(options: RoutingOptions) -> Iterator[KvEventPublisher | None]:
    """A publisher that is bound, and closed when the block ends; None where there is to be none."""
    if options.kv_events is None:
        yield None
        return
    from agentkit_runtime.routing.publisher import KvEventPublisher

    with KvEventPublisher(
        options.kv_events, replay_endpoint=options.replay, topic=options.topic
    ) as publisher:
        yield publisher
