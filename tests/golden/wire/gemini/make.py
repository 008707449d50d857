"""Four requests of one run, as Gemini's API gets them. Writes the golden files when run:

python -m tests.golden.wire.gemini.make

What a change of these bytes costs its users is a cold cache, so a new file needs a reason.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from agentkit.caching.plan.plan import CachedFront
from agentkit.models.base import ModelRequest, Settings
from agentkit.models.hosted.gemini import GeminiAdapter, GeminiOptions
from agentkit.models.hosted.gemini.body import GeminiBody
from tests.agentkit.models.hosted.gemini.talk import MODEL, context, plan, request

FOLDER = Path(__file__).parent
OPTIONS = GeminiOptions(thinking_level="low", include_thoughts=True)

REQUESTS: dict[str, ModelRequest] = {
    "1_question_with_image": request(context(1), settings=Settings(max_tokens=1_000)),
    "2_signed_calls_and_an_error": request(
        context(3).with_volatile("It is 9:41."), settings=Settings(max_tokens=1_000)
    ),
    "3_other_volatile_text_and_a_pdf": request(
        context(5).with_volatile("It is 9:42."), settings=Settings(max_tokens=1_000)
    ),
    "4_a_forced_tool": request(
        context(5), tool_choice="required", settings=Settings(max_tokens=1_000)
    ),
}
"""By file name. The fourth is another request of the same turn: its prompt is that of the third."""

OBJECT = "5_front_in_an_object"
"""The third request again, with its front in a cached-content object: it is moved out."""


def bodies() -> Iterator[tuple[str, bytes]]:
    """Return each file's name and bytes."""
    api = GeminiAdapter(MODEL, options=OPTIONS)
    for name, made in REQUESTS.items():
        layout = api.layout(made)
        yield f"{name}.json", api.body(layout, plan(layout), made).data
    body = with_object(api)
    assert body.front is not None
    yield f"{OBJECT}.json", body.with_object("cachedContents/1")
    yield f"{OBJECT}.create.json", body.front.data


def with_object(api: GeminiAdapter) -> GeminiBody:
    """Return the third request as one whose front an object may hold."""
    made = REQUESTS["3_other_volatile_text_and_a_pdf"]
    layout = api.layout(made)
    end = len(layout.cache_request.tools) + len(layout.cache_request.system)
    return api.body(layout, plan(layout, cached_front=CachedFront(end=end, ttl_s=300)), made)


if __name__ == "__main__":
    for file, data in bodies():
        (FOLDER / file).write_bytes(data)
