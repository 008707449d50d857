"""The server's own description, tried out: what it does not say is not answered, and nothing is the
server's fault. `AGENTKIT_OPENAPI_EXAMPLES=200` tries more than the few of a normal run."""

from __future__ import annotations

import os
from collections.abc import Iterator

import httpx2
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import Case, GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import content_type_conformance, status_code_conformance

from agentkit_runtime.api import create_app
from agentkit_runtime.api.admin import AdminParts, Sampler, admin_routes, own_routes
from agentkit_runtime.governing.gate import PressureGate
from agentkit_runtime.governing.lifecycle import Lifecycle
from agentkit_runtime.routing.worker import worker_routes
from agentkit_runtime.service import ChatService
from agentkit_runtime.text.template import ChatTemplate
from agentkit_runtime.text.tokenizer import Tokenizer
from tests.runtime.api.serving import serving_app
from tests.runtime.service.scripted import scripted_model

N_EXAMPLES = int(os.environ.get("AGENTKIT_OPENAPI_EXAMPLES", "1"))
"""Of each operation, in each of two modes: bodies that fit the description, and that do not."""

NOT_TRIED = ("/drain", "events")
"""One ends the server's service, and the other never ends."""

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance]


@pytest.fixture(scope="module")
def url(smollm2_text: tuple[Tokenizer, ChatTemplate]) -> Iterator[str]:
    """A server with all its endpoints, before a model that ends every answer at once."""
    (end,) = smollm2_text[0].encode_rendered("<|im_end|>", None)
    with scripted_model(
        *smollm2_text, lambda context: end, max_position=512, kv_events=100
    ) as loaded:
        service = ChatService(loaded)
        lifecycle = Lifecycle("ready")
        gate = PressureGate(service, lifecycle, clock=lambda: 0.0)
        parts = AdminParts(
            sampler=Sampler(service.stats, clock=lambda: 1_000.0),
            lifecycle=lifecycle,
            pressure=gate.pressure,
        )
        more = (admin_routes(parts), own_routes, worker_routes)
        with serving_app(create_app(service, gate=gate, lifecycle=lifecycle, more=more)) as (
            url,
            _,
        ):
            yield url


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_every_operation_answers_as_it_is_described(url: str) -> None:
    operations = [
        found.ok()
        for found in schemathesis.openapi.from_url(f"{url}/openapi.json").get_all_operations()
    ]
    tried = [operation for operation in operations if not operation.path.endswith(NOT_TRIED)]

    assert len(tried) > 30
    for operation in tried:
        either = st.one_of(
            operation.as_strategy(GenerationMode.POSITIVE),
            operation.as_strategy(GenerationMode.NEGATIVE),
        )

        @given(case=either)
        @settings(
            max_examples=2 * N_EXAMPLES,
            deadline=None,
            derandomize=True,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        def answers_as_described(case: Case) -> None:
            case.call_and_validate(base_url=url, checks=CHECKS, timeout=30)

        answers_as_described()

    assert httpx2.get(f"{url}/health").status_code == 200
