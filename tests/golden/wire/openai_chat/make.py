"""Four requests of one run at four kinds of servers. Writes the golden files when run:

python -m tests.golden.wire.openai_chat.make

What a change of these bytes costs its users is a cold cache, so a new file needs a reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from agentkit.blocks import AssistantMessage
from agentkit.caching.plan.plan import CachePlan, Hints, PlacedMark
from agentkit.caching.policy import Ttl
from agentkit.context import Context
from agentkit.context.segment import Content
from agentkit.models.base import ModelRequest, Settings
from agentkit.models.hosted.openai_chat import (
    DEEPSEEK,
    OPENAI,
    OPENROUTER,
    VLLM,
    ChatAdapter,
    Profile,
)
from tests.agentkit.models.hosted.openai_chat.talk import (
    FOLLOW_UP,
    PICTURE,
    QUESTION,
    adapter,
    calls,
    detail,
    plan,
)
from tests.agentkit.models.hosted.weather import ANSWER, FRONT, RESULTS, request

FOLDER = Path(__file__).parent
SETTINGS = Settings(temperature=0.2, max_tokens=1_000)
NAMES = (
    "1_question",
    "2_calls_and_an_error",
    "3_volatile_text_and_a_mask",
    "4_other_volatile_text_and_no_tools",
)


def _marked(*indices: int, **more: object) -> CachePlan:
    return plan(*indices, mode="explicit", cache_key="desk", **more)


def _long_front(*indices: int) -> CachePlan:
    marks = tuple(PlacedMark(index=index) for index in indices)
    return plan(marks=(PlacedMark(index=2, ttl=Ttl.ONE_HOUR), *marks))


_HINTS = Hints(body={"cache_salt": "tenant-salt"}, headers={"X-Session-ID": "desk"})
_MASK = frozenset(["weather"])
_SALTED = (
    plan(hints=_HINTS),
    plan(hints=_HINTS),
    plan(hints=_HINTS, mask=_MASK),
    plan(hints=_HINTS),
)
_KEYED = (plan(cache_key="t1"), plan(cache_key="t1"), plan(cache_key="t1"), plan(cache_key="t1"))

SERVERS: Mapping[str, tuple[Profile, Callable[[], Content], tuple[CachePlan, ...]]] = {
    "openai": (
        OPENAI,
        lambda: PICTURE,
        (_marked(2, 7), _marked(2, 7, 12), _marked(12, 14, mask=_MASK), _marked(14, 19)),
    ),
    "deepseek": (DEEPSEEK, lambda: QUESTION, _KEYED),
    "vllm": (VLLM, lambda: PICTURE, _SALTED),
    "openrouter": (
        OPENROUTER,
        lambda: PICTURE,
        (_long_front(7), _long_front(7, 13), _long_front(13, 15), _long_front(15, 21)),
    ),
}
"""By folder: the server, the first question, and the plans of the four requests."""


def requests(server: str) -> Iterator[tuple[str, ModelRequest, CachePlan]]:
    """Return each file's name, its request, and a plan made by hand."""
    profile, question, plans = SERVERS[server]
    label = adapter(profile).label
    said = calls(label)
    if profile is OPENROUTER:
        said = AssistantMessage((detail(label, "I should look, é."), *said.blocks))
    first = Context(*FRONT, question())
    second = first.append(said, RESULTS)
    third = second.append(ANSWER, FOLLOW_UP)
    fourth = third.append(said, RESULTS)
    made = (
        request(first, settings=SETTINGS),
        request(second, settings=SETTINGS),
        request(third.with_volatile("It is 9:41."), settings=SETTINGS, allowed_tools=_MASK),
        request(fourth.with_volatile("It is 9:42."), settings=SETTINGS, tool_choice="none"),
    )
    yield from zip(NAMES, made, plans, strict=True)


def bodies(server: str, api: ChatAdapter) -> Iterator[tuple[str, bytes]]:
    """Return each file's name and bytes."""
    for name, made, planned in requests(server):
        yield f"{name}.json", api.body(api.layout(made), planned, made).data


if __name__ == "__main__":
    for server, row in SERVERS.items():
        (FOLDER / server).mkdir(exist_ok=True)
        for file, data in bodies(server, adapter(row[0])):
            (FOLDER / server / file).write_bytes(data)
