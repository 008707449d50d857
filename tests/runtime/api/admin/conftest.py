from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import httpx2
import pytest

from agentkit_runtime.api import create_app
from agentkit_runtime.api.admin import AdminParts, Sampler, admin_routes, own_routes
from agentkit_runtime.governing.gate import PressureGate
from agentkit_runtime.governing.lifecycle import Lifecycle
from agentkit_runtime.routing.worker import worker_routes
from agentkit_runtime.service import ChatService
from agentkit_runtime.text.template import ChatTemplate
from agentkit_runtime.text.tokenizer import Tokenizer
from tests.runtime.api.admin.operated import Keys, Operated
from tests.runtime.api.conftest import ANSWERS
from tests.runtime.api.serving import Served, serving_app
from tests.runtime.service.scripted import BOUND_S, Pace, Script, scripted_model


@contextmanager
def serving_operated(service: ChatService, pace: Pace | None = None) -> Iterator[Operated]:
    """A server with everything that operators use, in front of `service`."""
    lifecycle = Lifecycle("ready")
    sampler = Sampler(service.stats, clock=lambda: 1_000.0)
    gate = PressureGate(service, lifecycle, clock=lambda: 0.0)
    parts = AdminParts(sampler=sampler, lifecycle=lifecycle, pressure=gate.pressure)
    app = create_app(
        service,
        authenticator=Keys(),
        gate=gate,
        lifecycle=lifecycle,
        more=(admin_routes(parts), own_routes, worker_routes),
    )
    with ExitStack() as running:
        url, server = running.enter_context(serving_app(app))
        clients = {
            name: running.enter_context(
                httpx2.Client(
                    base_url=url, headers={"Authorization": f"Bearer {name}"}, timeout=BOUND_S
                )
            )
            for name in ("root", "ann", "bob")
        }
        served = Served(
            url=url, server=server, service=service, pace=pace or Pace(lambda context: 0)
        )
        yield Operated(served=served, lifecycle=lifecycle, sampler=sampler, **clients)


@pytest.fixture(scope="session")
def shared_operated(smollm2_text: tuple[Tokenizer, ChatTemplate]) -> Iterator[Operated]:
    pace = Pace(Script(smollm2_text[0], ANSWERS))
    with scripted_model(*smollm2_text, pace, kv_events=1_000) as loaded:
        with serving_operated(ChatService(loaded), pace) as operated:
            yield operated


@pytest.fixture
def operated(shared_operated: Operated) -> Operated:
    """The server, with nothing cached."""
    shared_operated.flush()
    return shared_operated
