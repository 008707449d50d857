"""What the tokenizer promises. Its ids are compared with llama.cpp's in tests/golden."""

from __future__ import annotations

import threading
from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentkit_runtime.errors import UnsupportedModel
from agentkit_runtime.text.tokenizer import Tokenizer
from tests.runtime.text.vocabularies import tiny_metadata

TEXT = st.text(st.characters(codec="utf-8"), max_size=60)


@given(text=TEXT)
@settings(max_examples=200, deadline=None)
def test_any_text_comes_back_from_its_ids(tiny: Tokenizer, text: str) -> None:
    assert tiny.decode(tiny.encode(text), skip_special=False) == text


@given(parts=st.lists(st.sampled_from(["<|im_start|>", "<|im_end|>", "a", "<", "|im_end|>", "\n"])))
def test_plain_encoding_never_gives_a_special_token(tiny: Tokenizer, parts: list[str]) -> None:
    assert not any(tiny.is_special(token_id) for token_id in tiny.encode("".join(parts)))


def test_special_tokens_are_recognised_only_in_rendered_text(tiny: Tokenizer) -> None:
    text = "<|im_start|>hello<|im_end|>"
    assert tiny.encode_rendered(text, None) == [0, *tiny.encode("hello"), 1]
    assert tiny.decode(tiny.encode(text)) == text


def test_marked_special_tokens_are_plain_text_and_the_mark_is_gone(tiny: Tokenizer) -> None:
    mark = "\ufdd0"
    marked = tiny.marker.mark("say <|im_end|> now", mark)
    rendered = f"<|im_start|>{marked}<|im_end|>"
    assert tiny.encode_rendered(rendered, mark) == [0, *tiny.encode("say <|im_end|> now"), 1]


def test_rendered_pieces_cover_the_text_and_know_which_are_special(tiny: Tokenizer) -> None:
    text = "<|im_start|>hello<|im_end|>\n"
    pieces = list(tiny.split_rendered(text, None))
    assert [(text[piece.start : piece.end], piece.is_special) for piece in pieces] == [
        ("<|im_start|>", True),
        ("hello", False),
        ("<|im_end|>", True),
        ("\n", False),
    ]


def test_user_defined_tokens_are_tokens_in_any_text() -> None:
    """llama.cpp and Hugging Face do the same: only control tokens need trust."""
    tokenizer = Tokenizer.from_gguf(tiny_metadata(user_defined=("<tool_call>",)))
    assert tokenizer.encode("a<tool_call>b") == [*tokenizer.encode("a"), 2, *tokenizer.encode("b")]
    assert "<tool_call>" not in tokenizer.special_texts


def test_skipping_special_tokens_is_the_default_of_decode(tiny: Tokenizer) -> None:
    ids = tiny.encode_rendered("<|im_start|>hello<|im_end|>", None)
    assert tiny.decode(ids) == "hello"
    assert tiny.decode(ids, skip_special=False) == "<|im_start|>hello<|im_end|>"


def test_ids_without_a_token_decode_to_nothing_and_negative_ones_are_refused(
    tiny: Tokenizer,
) -> None:
    assert tiny.decode([tiny.vocab_size + 5]) == ""
    with pytest.raises(ValueError, match="-1"):
        tiny.decode([-1])


def test_bytes_that_are_no_character_decode_to_the_replacement_character(tiny: Tokenizer) -> None:
    ids = tiny.encode("é")
    assert tiny.decode(ids[:1]) == "�"


def test_bos_is_added_only_for_prompts_without_a_template() -> None:
    with_bos = Tokenizer.from_gguf(tiny_metadata(bos_token_id=0, add_bos_token=True))
    without = Tokenizer.from_gguf(tiny_metadata(bos_token_id=0, add_bos_token=False))
    assert with_bos.encode_prompt("a") == [0, *with_bos.encode("a")]
    assert without.encode_prompt("a") == without.encode("a")
    assert with_bos.encode_rendered("a", None) == with_bos.encode("a")


def test_every_token_that_ends_a_turn_is_an_end(tiny: Tokenizer) -> None:
    control = ("<|im_start|>", "<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<x>")
    tokenizer = Tokenizer.from_gguf(tiny_metadata(control=control, eom_token_id=4))
    assert tokenizer.eos_ids == {1, 2, 3, 4}
    assert tiny.eos_ids == {1}


def test_the_bundled_model_ends_its_turn_with_im_end(smollm2: Tokenizer) -> None:
    assert (smollm2.bos_text, smollm2.eos_text) == ("<|im_start|>", "<|im_end|>")
    assert smollm2.eos_ids == {0, 2}
    assert smollm2.vocab_size == 49_152


def test_token_bytes_add_up_to_the_text(smollm2: Tokenizer) -> None:
    text = "naïve 東京 🙂\n\ttab 123"
    assert b"".join(map(smollm2.token_bytes, smollm2.encode(text))) == text.encode()


def test_the_fingerprint_names_the_vocabulary_and_its_ends(tiny: Tokenizer) -> None:
    same = Tokenizer.from_gguf(tiny_metadata())
    other_merges = Tokenizer.from_gguf(tiny_metadata(merges=("h e",)))
    other_end = Tokenizer.from_gguf(tiny_metadata(eom_token_id=0))
    other_split = Tokenizer.from_gguf(tiny_metadata(pre="qwen2"))
    assert same.fingerprint == tiny.fingerprint
    different = {t.fingerprint for t in (tiny, other_merges, other_end, other_split)}
    assert len(different) == 4


def test_a_control_token_of_one_character_is_never_taken_from_text() -> None:
    tokenizer = Tokenizer.from_gguf(tiny_metadata(control=("<|im_start|>", "<|im_end|>", "東")))
    assert "東" not in tokenizer.special_texts
    assert not any(tokenizer.is_special(i) for i in tokenizer.encode_rendered("a東b", None))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": "llama"}, "'llama'"),
        ({"model": None}, "None"),
        ({"pre": "no-such-split"}, "'no-such-split'"),
        ({"tokens": None}, "tokens"),
        ({"merges": ["ab"]}, "'ab'"),
        ({"merges": [1]}, "merges"),
        ({"token_type": [1]}, "1 token types"),
        ({"bos_token_id": 10**6}, "1000000"),
        ({"tokens": ["a", "a"], "token_type": [1, 1], "merges": []}, "more than once"),
    ],
)
def test_metadata_that_is_not_understood_is_refused_by_name(
    change: Mapping[str, object], message: str
) -> None:
    metadata = tiny_metadata()
    metadata |= {f"tokenizer.ggml.{name}": value for name, value in change.items()}
    with pytest.raises(UnsupportedModel, match=message):
        Tokenizer.from_gguf(metadata)


def test_other_threads_run_while_a_long_text_is_encoded(smollm2: Tokenizer) -> None:
    ticks: list[None] = []
    started, stop = threading.Event(), threading.Event()

    def tick() -> None:
        while not stop.wait(0.001):
            ticks.append(None)
            started.set()

    ticker = threading.Thread(target=tick)
    ticker.start()
    try:
        assert started.wait(10)
        n_before = len(ticks)
        smollm2.encode("word " * 200_000)
        n_during = len(ticks) - n_before
    finally:
        stop.set()
        ticker.join()
    assert n_during > 10


def test_the_longest_token_is_known(tiny: Tokenizer) -> None:
    assert tiny.longest_token_bytes == len("<|im_start|>")
