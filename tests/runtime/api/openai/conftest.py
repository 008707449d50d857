from __future__ import annotations

from collections.abc import Iterator

import pytest

from agentkit_runtime.service import ChatService
from agentkit_runtime.text.template import ChatTemplate
from agentkit_runtime.text.tokenizer import Tokenizer
from tests.runtime.api.conftest import ANSWERS
from tests.runtime.api.serving import Served, serving
from tests.runtime.service.scripted import Pace, Script, scripted_model

PLACE = '{"city": "Oslo", "days": 3}'


@pytest.fixture(scope="module")
def served(smollm2_text: tuple[Tokenizer, ChatTemplate]) -> Iterator[Served]:
    """A server in front of a scripted model that also answers in JSON."""
    pace = Pace(Script(smollm2_text[0], {**ANSWERS, "place": PLACE}))
    with scripted_model(*smollm2_text, pace) as loaded:
        service = ChatService(loaded)
        with serving(service) as (url, server):
            yield Served(url=url, server=server, service=service, pace=pace)
