"""A client of the official SDK that reaches nothing but the mock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from anthropic import AsyncAnthropic

from agentkit.models.hosted.anthropic import AnthropicAdapter
from tests.agentkit.models.hosted.anthropic.support import MODEL


@pytest.fixture
async def client() -> AsyncAnthropic:
    return AsyncAnthropic(api_key="test-key", base_url="https://api.anthropic.com")


@pytest.fixture
def make_adapter(client: AsyncAnthropic) -> Callable[..., AnthropicAdapter]:
    def make(model: str = MODEL, **values: Any) -> AnthropicAdapter:
        return AnthropicAdapter(model, **({"client": client} | values))

    return make
