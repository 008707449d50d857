"""The first request, before anybody's: kernels are chosen, caches allocated, pages touched."""

from __future__ import annotations

import asyncio
import logging

from agentkit_runtime.chat import ChatFinished, ChatMessage, ChatRequest
from agentkit_runtime.errors import RuntimeFault
from agentkit_runtime.kv.prune import ByTenant
from agentkit_runtime.service import ChatService
from agentkit_runtime.tenancy.terms import OPERATOR
from agentkit_runtime.types import SamplingParams

_LOG = logging.getLogger(__name__)

_N_TOKENS = 2
"""The second is the first one that is decoded."""


def warm_up(service: ChatService) -> None:
    """Generate two tokens, and forget them. Not from a running event loop.

    A model that cannot do it is logged: requests will say why.
    """
    asyncio.run(_warm_up(service))


async def _warm_up(service: ChatService) -> None:
    request = ChatRequest(
        messages=(ChatMessage(role="user", content="Hello"),),
        tenant=OPERATOR,
        sampling=SamplingParams(max_tokens=_N_TOKENS),
    )
    try:
        async for event in service.stream(request):
            if isinstance(event, ChatFinished) and event.error:
                _LOG.warning("the model could not be warmed up: %s", event.error)
        await service.prefixes.prune(ByTenant(OPERATOR))
    except RuntimeFault as fault:
        _LOG.warning("the model could not be warmed up: %s", fault)
