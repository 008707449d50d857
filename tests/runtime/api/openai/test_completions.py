"""Completions and tokens, by the official client, in front of a scripted model."""

from __future__ import annotations

from collections.abc import Iterator

import httpx2
import openai
import pytest
from openai.types import Completion

from tests.runtime.api.conftest import ANSWERS
from tests.runtime.api.openai.strict import strictly, unknown_fields
from tests.runtime.api.serving import Served


def chatml(text: str) -> str:
    return f"<|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n"


@pytest.fixture
def client(served: Served) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{served.url}/v1", api_key="none", max_retries=0) as made:
        yield made


def post(served: Served, path: str = "/v1/completions", **fields: object) -> httpx2.Response:
    body = {"model": "scripted", "prompt": chatml("hello"), **fields}
    return httpx2.post(f"{served.url}{path}", json=body, timeout=30)


def answered(served: Served, **fields: object) -> Completion:
    found = post(served, **fields)
    assert found.status_code == 200, found.text
    return strictly(Completion, found.json())


def tokens(served: Served, text: str) -> list[int]:
    found: list[int] = post(served, "/tokenize", prompt=text).json()["tokens"]
    return found


def test_a_text_is_continued_and_its_special_tokens_are_special(served: Served) -> None:
    done = answered(served)

    assert [choice.text for choice in done.choices] == [ANSWERS["hello"]]
    assert done.choices[0].finish_reason == "stop"
    assert done.usage is not None
    assert done.usage.prompt_tokens == len(tokens(served, chatml("hello")))


def test_of_too_many_prompts_their_number_is_told(served: Served) -> None:
    """And not that the first one is no number."""
    for prompts in (["a"] * 129, [[1]] * 129):
        error = post(served, prompt=prompts).json()["error"]
        assert (error["param"], "at most 128 items" in error["message"]) == ("prompt", True), error


def test_ids_are_the_prompt_as_they_are(served: Served) -> None:
    ids = tokens(served, chatml("hello"))

    assert answered(served, prompt=ids).choices[0].text == ANSWERS["hello"]


def test_each_prompt_has_its_answers_in_order(served: Served) -> None:
    texts = [chatml("hello"), chatml("sunny")]
    of_ids = [tokens(served, text) for text in texts]

    for prompts in (texts, of_ids):
        done = answered(served, prompt=prompts, n=2)
        assert [(choice.index, choice.text) for choice in done.choices] == [
            (0, ANSWERS["hello"]),
            (1, ANSWERS["hello"]),
            (2, ANSWERS["sunny"]),
            (3, ANSWERS["sunny"]),
        ]


def test_a_stream_says_the_same_and_ends_with_the_usage(client: openai.OpenAI) -> None:
    chunks = list(
        client.completions.create(
            model="scripted",
            prompt=[chatml("hello"), chatml("sunny")],
            stream=True,
            stream_options={"include_usage": True},
            echo=True,
        )
    )

    told = {0: "", 1: ""}
    for chunk in chunks:
        assert not list(unknown_fields(chunk))
        for choice in chunk.choices:
            told[choice.index] += choice.text
    assert told == {
        0: chatml("hello") + ANSWERS["hello"],
        1: chatml("sunny") + ANSWERS["sunny"],
    }
    assert [chunk.usage is not None for chunk in chunks] == [False] * (len(chunks) - 1) + [True]


def test_an_answer_ends_after_sixteen_tokens_or_where_it_is_told_to(served: Served) -> None:
    endless = chatml("novel")

    assert answered(served, prompt=endless).choices[0].finish_reason == "length"
    assert answered(served, prompt=endless, max_tokens=3).usage.completion_tokens == 3  # type: ignore[union-attr]
    assert answered(served, prompt=endless, stop=" more").choices[0].text == "Once"


def test_no_tokens_fill_the_cache(served: Served) -> None:
    prompt = chatml("hello, " * 20)
    warm = answered(served, prompt=prompt, max_tokens=0, echo=True)

    assert warm.choices[0].text == prompt
    assert warm.usage is not None
    after = answered(served, prompt=prompt).usage
    assert after is not None
    assert after.prompt_tokens_details is not None
    assert after.prompt_tokens_details.cached_tokens == warm.usage.prompt_tokens - 1


def test_log_probabilities_say_where_each_token_stands(served: Served) -> None:
    (choice,) = answered(served, logprobs=1).choices

    assert choice.logprobs is not None
    assert "".join(choice.logprobs.tokens or ()) == choice.text
    for token, offset in zip(
        choice.logprobs.tokens or (), choice.logprobs.text_offset or (), strict=True
    ):
        assert choice.text[offset:].startswith(token)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"suffix": "}"}, "suffix"),
        ({"best_of": 2}, "best_of"),
        ({"echo": True, "logprobs": 1}, "echo"),
        ({"prompt": ""}, "prompt"),
        ({"prompt": []}, "prompt"),
        ({"prompt": [1_000_000]}, "prompt"),
        ({"prompt": "x " * 60_000}, "prompt"),
        ({"logit_bias": {"1000000": 1}}, "logit_bias"),
        ({"logprobs": 21}, "logprobs"),
        ({"stream_options": {"include_usage": True}}, "stream_options"),
    ],
)
def test_what_cannot_be_honoured_is_refused_by_name(
    served: Served, fields: dict[str, object], param: str
) -> None:
    found = post(served, **fields)

    assert (found.status_code, found.json()["error"]["param"]) == (400, param)


def test_a_bias_forbids_a_token_and_the_end_can_be_ignored(served: Served) -> None:
    end, other = tokens(served, "<|im_end|> more")
    usual = answered(served)
    n_tokens = usual.usage.completion_tokens  # type: ignore[union-attr]
    forbidden = answered(served, logit_bias={str(end): -100, str(other): 50}, max_tokens=n_tokens)
    ignored = answered(served, ignore_eos=True, max_tokens=n_tokens)

    assert usual.choices[0].finish_reason == "stop"
    assert forbidden.choices[0].finish_reason == "length"
    assert ignored.choices[0].finish_reason == "length"


def test_tokens_become_text_again(served: Served) -> None:
    text = chatml("naïve — 東京 🙂")
    body = {"tokens": tokens(served, text)}
    found = httpx2.post(f"{served.url}/detokenize", json=body)

    assert found.json() == {"prompt": text}


def test_a_chat_is_tokenized_with_its_template(served: Served) -> None:
    body = {"messages": [{"role": "user", "content": "hello"}], "return_token_strs": True}
    found = httpx2.post(f"{served.url}/tokenize", json=body).json()

    assert "".join(found["token_strs"]).endswith(chatml("hello"))
    assert found["count"] == len(found["tokens"]) <= found["max_model_len"]


def test_rendered_ids_are_those_of_the_real_request(served: Served, client: openai.OpenAI) -> None:
    chat = {"model": "scripted", "messages": [{"role": "user", "content": "hello"}]}
    first = httpx2.post(f"{served.url}/v1/chat/completions", json=chat).json()
    chat["messages"] += [first["choices"][0]["message"], {"role": "user", "content": "sunny"}]  # type: ignore[operator]

    ids = httpx2.post(f"{served.url}/v1/chat/completions/render", json=chat).json()["token_ids"]
    usage = httpx2.post(f"{served.url}/v1/chat/completions", json=chat).json()["usage"]

    assert len(ids) == usage["prompt_tokens"]
    raw = post(served, prompt=ids).json()
    assert raw["usage"]["prompt_tokens_details"]["cached_tokens"] == len(ids) - 1
    (prompt,) = post(served, "/v1/completions/render", prompt=ids).json()
    assert prompt == {"token_ids": ids}


def test_text_and_tokens_of_no_sort_are_refused(served: Served) -> None:
    both = {"prompt": "x", "messages": [{"role": "user", "content": "x"}]}

    assert httpx2.post(f"{served.url}/tokenize", json=both).status_code == 400
    assert httpx2.post(f"{served.url}/tokenize", json={}).status_code == 400
    beyond = httpx2.post(f"{served.url}/detokenize", json={"tokens": [10_000_000]})
    assert (beyond.status_code, beyond.json()["error"]["param"]) == (400, "tokens")
