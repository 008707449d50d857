"""Finished responses, kept so that later ones continue from their very token ids.

Bounded, in memory, and by tenant: nobody can find, count or push out what belongs to others beyond
the bound that all share. What was dropped is as unknown as what never was.
"""

from __future__ import annotations

import dataclasses
import sys
from array import array
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from agentkit_runtime.api.failure import ApiError
from agentkit_runtime.api.openai.responses.wire import ItemDocument, ResponseDocument
from agentkit_runtime.chat import ChatMessage, ChatTool

Front = tuple[str | None, tuple[ChatTool, ...], dict[str, bool | str]]
"""Instructions, tools and template options: what stands in front of all messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """What was said, without instructions."""

    front: Front
    messages: tuple[ChatMessage, ...]
    ids: Sequence[int]
    """All that the model has read and said, instructions and tools included."""

    def answered(self, reply: ChatMessage, ids: Sequence[int]) -> Conversation:
        """The conversation with the model's reply."""
        return dataclasses.replace(self, messages=(*self.messages, reply), ids=array("i", ids))


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredResponse:
    """A finished response."""

    document: ResponseDocument
    input_items: tuple[ItemDocument, ...]
    """Of this response's input and of those that it continues, oldest first."""
    conversation: Conversation
    events: tuple[bytes, ...] = ()
    """Of its stream, where they can be asked for again."""

    weight: int = field(init=False)
    """Bytes, roughly. What it shares with responses that it continues is counted with each."""

    def __post_init__(self) -> None:
        said = self.conversation
        sent = (self.document, self.input_items, self.events)
        parts = (*sent, said.ids, said.front[0], said.front[2], _texts(said.messages))
        tools = [(tool.name, tool.description, tool.parameters) for tool in said.front[1]]
        object.__setattr__(self, "weight", _size((*parts, tools)))


class Unfinished(Protocol):
    """A response that goes on by itself; `background.Background`."""

    def forget(self) -> None:
        """End it, and keep nothing of it."""


U = TypeVar("U", bound=Unfinished)


class ResponseStore:
    """The latest responses, least recently used first out. For one event loop."""

    def __init__(
        self, *, max_bytes: int = 512 * 1024 * 1024, max_bytes_of_tenant: int = 64 * 1024 * 1024
    ) -> None:
        """`max_bytes` bounds all, `max_bytes_of_tenant` those of each tenant, both roughly."""
        self._max_bytes = max_bytes
        self._max_bytes_of_tenant = max_bytes_of_tenant
        self._responses: OrderedDict[tuple[str, str], StoredResponse] = OrderedDict()
        self._n_bytes: dict[str, int] = {}
        self._unfinished: dict[tuple[str, str], Unfinished] = {}

    def __len__(self) -> int:
        return len(self._responses)

    def begin(self, tenant: str, response_id: str, unfinished: Unfinished) -> None:
        """Know a response that goes on by itself until `end` is called."""
        self._unfinished[tenant, response_id] = unfinished

    def end(self, tenant: str, response_id: str) -> None:
        """It is over. Whoever says so puts it in, unless it was to be forgotten."""
        self._unfinished.pop((tenant, response_id), None)

    def unfinished(self, tenant: str, response_id: str, kind: type[U]) -> U | None:
        """A response of this tenant that goes on; None where it is over, or never was."""
        found = self._unfinished.get((tenant, response_id))
        return found if isinstance(found, kind) else None

    def put(self, tenant: str, response: StoredResponse) -> None:
        """Keep a response; it has an id of its own."""
        self._responses[tenant, response.document["id"]] = response
        self._n_bytes[tenant] = self._n_bytes.get(tenant, 0) + response.weight
        while self._n_bytes.get(tenant, 0) > self._max_bytes_of_tenant:
            self._drop(next(key for key in self._responses if key[0] == tenant))
        while sum(self._n_bytes.values()) > self._max_bytes:
            self._drop(next(iter(self._responses)))

    def get(self, tenant: str, response_id: str, *, param: str | None = None) -> StoredResponse:
        """A response of this tenant.

        Raises:
            ApiError: 404, in the same words for one that is somebody else's, was dropped, or never
                was.
        """
        found = self._responses.get((tenant, response_id))
        if found is None:
            raise ApiError(
                f"there is no response {response_id[:100]!r}; it was not stored, has been dropped "
                "to make room, or never was",
                status=404,
                param=param,
                code="previous_response_not_found" if param else "response_not_found",
            )
        self._responses.move_to_end((tenant, response_id))
        return found

    def delete(self, tenant: str, response_id: str) -> None:
        """Forget a response. Raises as `get`."""
        self.get(tenant, response_id)
        self._drop((tenant, response_id))

    def forget(self, tenant: str | None) -> int:
        """Forget all responses of a tenant, or of all (None); returns how many there were.

        Those that still go on are ended.
        """
        unfinished = [one for key, one in self._unfinished.items() if tenant in (None, key[0])]
        for one in unfinished:
            one.forget()
        keys = [key for key in self._responses if tenant in (None, key[0])]
        for key in keys:
            self._drop(key)
        return len(keys) + len(unfinished)

    def _drop(self, key: tuple[str, str]) -> None:
        tenant, _ = key
        self._n_bytes[tenant] -= self._responses.pop(key).weight
        if not self._n_bytes[tenant]:
            del self._n_bytes[tenant]


def _texts(messages: Sequence[ChatMessage]) -> list[object]:
    return [
        (message.content, message.reasoning, [call.arguments for call in message.tool_calls])
        for message in messages
    ]


def _size(value: object) -> int:
    """Bytes of a document and of all that is in it: clients choose how much that is."""
    n_bytes, left = 0, [value]
    while left:
        part = left.pop()
        n_bytes += sys.getsizeof(part)
        if isinstance(part, Mapping):
            left += part.keys()
            left += part.values()
        elif isinstance(part, list | tuple):
            left += part
    return n_bytes
