from __future__ import annotations

from collections.abc import Iterator

import pytest

from agentkit_runtime.text.template import ChatTemplate
from agentkit_runtime.text.tokenizer import Tokenizer
from tests.runtime.api.conftest import ANSWERS
from tests.runtime.api.serving import Served, served_script

PLACE = '{"city": "Oslo", "days": 3}'


@pytest.fixture(scope="module")
def served(smollm2_text: tuple[Tokenizer, ChatTemplate]) -> Iterator[Served]:
    """A server in front of a scripted model that also answers in JSON."""
    with served_script(smollm2_text, {**ANSWERS, "place": PLACE}) as running:
        yield running
