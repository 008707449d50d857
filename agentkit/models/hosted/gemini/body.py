"""The final bytes of a request.

    {"tools":[{"functionDeclarations":[...]}],"systemInstruction":{"parts":[...]},
     "contents":[...],  "toolConfig":..., "safetySettings":..., "generationConfig":...}

What steers one answer comes behind the contents, so the bytes of a run's next request begin with
those of this one, up to the end of its last message that is not volatile. With an object
(`cachedContent`) the front is left out, as the API demands.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from agentkit.caching.plan.plan import CachePlan
from agentkit.caching.request import Role
from agentkit.models.base import ModelRequest
from agentkit.models.hosted.gemini.front import Front, FrontKey
from agentkit.models.hosted.gemini.options import GeminiOptions
from agentkit.models.hosted.gemini.steering import steering, tool_config
from agentkit.models.hosted.wire import Body, Layout


@dataclass(frozen=True, slots=True, kw_only=True)
class GeminiBody(Body):
    """A finished request, and what it is when an object holds its front."""

    front: Front | None = None
    """What the object must hold; None: no object is wanted."""
    rest: bytes = b""
    """The members behind the front, as the end of a JSON object."""

    def with_object(self, name: str) -> bytes:
        """Return the bytes that name the object `name` in place of the front."""
        return b'{"cachedContent":' + json.dumps(name).encode() + b"," + self.rest


def finish(
    layout: Layout,
    plan: CachePlan,
    request: ModelRequest,
    *,
    model: str,
    options: GeminiOptions,
) -> GeminiBody:
    """Return the final bytes.

    Raises:
        RequestRefused: a tool must be called and there is none.
        ValueError: the plan has marks, which Gemini does not know.
    """
    if plan.marks:
        raise ValueError(f"Gemini has no cache marks, the plan has {len(plan.marks)}")
    if plan.cached_front is not None and request.tool_choice == "auto":
        plan = replace(plan, mask=None)  # the object is worth more; the loop keeps to the mask
    choice = tool_config(request, plan, model)
    ends = list(steering(choice, request, options))
    messages = _contents(layout)
    body = _object([*_front(layout), _list("contents", messages), *ends])
    front = None if choice else _cached_front(layout, plan, request, model)
    if front is None:
        return GeminiBody(data=body)
    rest = [_list("contents", messages[front.n_contents :]), *ends]
    return GeminiBody(data=body, front=front, rest=_object(rest)[1:])


def _front(layout: Layout) -> Iterator[bytes]:
    """Yield the members of tools and system instruction, those that there are."""
    n_tools, n_system = len(layout.cache_request.tools), len(layout.cache_request.system)
    data = [wire.data for wire in layout.blocks[: n_tools + n_system]]
    if n_tools:
        yield b'"tools":[{' + _list("functionDeclarations", data[:n_tools]) + b"}]"
    if n_system:
        yield b'"systemInstruction":{' + _list("parts", data[n_tools:]) + b"}"


def _contents(layout: Layout) -> list[bytes]:
    request = layout.cache_request
    at = len(request.tools) + len(request.system)
    found = []
    for message in request.messages:
        end = at + len(message.blocks)
        role = b"model" if message.role is Role.ASSISTANT else b"user"
        parts = _list("parts", [wire.data for wire in layout.blocks[at:end]])
        found.append(b'{"role":"' + role + b'",' + parts + b"}")
        at = end
    return found


def _cached_front(
    layout: Layout, plan: CachePlan, request: ModelRequest, model: str
) -> Front | None:
    """Return what the plan wants an object to hold.

    An object holds tools and system instruction whole, and whole contents behind them or none: the
    member `contents` is left out then, because an empty list is refused. At least one content
    stays for the request itself.
    """
    if plan.cached_front is None:
        return None
    end = plan.cached_front.end
    n_contents = _contents_before(layout, end)
    if not end or n_contents == len(layout.cache_request.messages):
        return None
    members = list(_front(layout))
    if n_contents:
        members.append(_list("contents", _contents(layout)[:n_contents]))
    data = _object(members)
    digest = hashlib.sha256(data).hexdigest()
    return Front(
        key=FrontKey(model=model, digest=digest, tenant=request.tenant),
        data=data,
        n_contents=n_contents,
        n_tokens=sum(wire.block.n_tokens for wire in layout.blocks[:end]),
        ttl_s=plan.cached_front.ttl_s,
    )


def _contents_before(layout: Layout, end: int) -> int:
    request = layout.cache_request
    at = len(request.tools) + len(request.system)
    ends = [at]
    for message in request.messages:
        at += len(message.blocks)
        ends.append(at)
    if end not in ends:
        raise ValueError(
            f"a cached front must end behind the system instruction or a message, that is at one "
            f"of {ends}, got {end!r}"
        )
    return ends.index(end)


def _list(name: str, pieces: Sequence[bytes]) -> bytes:
    return f'"{name}":['.encode() + b",".join(pieces) + b"]"


def _object(members: Iterable[bytes]) -> bytes:
    return b"{" + b",".join(members) + b"}"
