"""What the fake model says when it is left to itself."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, TypeAdapter

from agentkit.fake import Ask, Call, Failure, Reply, obey
from agentkit.fake.reply import cut
from agentkit.fake.sample import sample

LOOK = {"look": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}}


def ask(text: str, **changes: Any) -> Ask:
    values = {"tools": LOOK, "n_results": 0, "n_turns": 0, **changes}
    return Ask(api="chat", model="m", user_text=text, **values)


def test_the_answer_to_anything_is_ok() -> None:
    assert obey(ask("How are you?")) == Reply(text="ok")


def test_lines_of_the_text_say_what_to_do() -> None:
    text = 'Please.\n/think hm\n/say hello\n/say you\n/call look {"n": 3}\n/call nobody {}'
    assert obey(ask(text)) == Reply(
        thinking="hm", text="hello\nyou", calls=(Call("look", '{"n": 3}'),)
    )
    assert obey(ask("/fail 429 2")) == Failure(status=429, retry_after_s=2.0)


def test_calls_that_are_forbidden_are_not_made_and_forced_ones_are() -> None:
    assert obey(ask("/call look", tool_choice="none")) == Reply(text="ok")
    assert obey(ask("", tool_choice="any")) == Reply(calls=(Call("look", '{"n": 0}'),))
    assert obey(ask("", tool_choice="look")) == Reply(calls=(Call("look", '{"n": 0}'),))


class Inner(BaseModel):
    kind: str = Field(min_length=3)
    values: list[float] = Field(min_length=2)
    maybe: int | None


class Outer(BaseModel):
    name: str
    inner: Inner
    many: dict[str, int]
    ready: bool


def test_the_answer_to_a_schema_fits_it() -> None:
    reply = obey(ask("", output_schema=Outer.model_json_schema()))
    assert isinstance(reply, Reply)
    assert Outer.model_validate_json(reply.text)


@given(
    st.recursive(
        st.sampled_from([int, float, str, bool]),
        lambda inner: st.one_of(
            inner.map(lambda t: list[t]),
            inner.map(lambda t: t | None),  # type: ignore[valid-type]
        ),
        max_leaves=5,
    )
)
def test_samples_fit_the_schemas_of_any_type(kind: Any) -> None:
    adapter = TypeAdapter[Any](kind)
    adapter.validate_json(json.dumps(sample(adapter.json_schema())))


def test_broken_arguments_are_put_into_an_object() -> None:
    assert Call("look", '{"n": 3}').value == {"n": 3}
    assert Call("look", '{"n": ').value == {"INVALID_JSON": '{"n": '}
    assert Call("look", "3").value == {"INVALID_JSON": "3"}


@given(st.text(max_size=30), st.text(max_size=30), st.integers(1, 12))
def test_a_reply_never_has_more_than_it_may(thinking: str, text: str, limit: int) -> None:
    reply = Reply(thinking=thinking, text=text, calls=(Call("look", '{"n": 1}'),))
    short, was_cut = cut(reply, limit)
    assert len((short.thinking + short.text).encode()) <= limit * 4
    assert was_cut == (short != reply)
    assert cut(reply, None) == (reply, False)
