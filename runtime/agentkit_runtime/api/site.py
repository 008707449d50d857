"""What all endpoints of one server share."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fastapi import Request

from agentkit_runtime.api.answer import Answer
from agentkit_runtime.api.answering import Answering
from agentkit_runtime.api.caller import require_user
from agentkit_runtime.api.failure import ApiError
from agentkit_runtime.api.large import Decoding, is_large
from agentkit_runtime.chat import ChatRequest

if TYPE_CHECKING:
    from agentkit_runtime.service import ChatService


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """One server: the model, the names it goes by, the way requests are answered."""

    service: ChatService
    answering: Answering
    model_ids: tuple[str, ...]
    """Names that requests may use; the first is the one in answers."""
    clock: Callable[[], float]
    """Unix seconds, for dates in answers."""
    started_s: float
    """When the server began, by `clock`."""
    decoding: Decoding = field(default_factory=Decoding)
    """Turns for large bodies."""

    @property
    def model(self) -> str:
        """The model's name in answers."""
        return self.model_ids[0]

    def check_model(self, name: str) -> None:
        """Raise `ApiError` (404) for a model that is not served here."""
        if name not in self.model_ids:
            raise ApiError(
                f"the model {name!r} is not served here; known: {', '.join(self.model_ids)}",
                status=404,
                param="model",
                code="model_not_found",
            )

    async def open(self, request: Request, chat: ChatRequest, *, id: str, n: int = 1) -> Answer:
        """Start `n` answers to `chat` for the sender of `request`; see `Answering.open`."""
        (answer,) = await self.open_all(request, (chat,), id=id, n=n)
        return answer

    async def open_all(
        self, request: Request, chats: Sequence[ChatRequest], *, id: str, n: int = 1
    ) -> list[Answer]:
        """The same for several prompts of one request: all of them, or none."""
        return await self.answering.open(
            chats,
            id=id,
            endpoint=request.scope["route"].path,
            caller=require_user(request),
            headers=request.headers,
            n=n,
            caller_now=request.state.caller_now,
            large=await is_large(request),
        )

    def looking(self, request: Request) -> AbstractAsyncContextManager[None]:
        """Let in a request that wants no answer; see `Answering.looking`."""
        return self.answering.looking(require_user(request))


def new_id(prefix: str) -> str:
    """An id that nobody can guess, such as `chatcmpl-...`."""
    return f"{prefix}{uuid.uuid4().hex}"
