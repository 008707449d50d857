"""Generated ids to visible text: whole characters, exact stops, any chunking."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agentkit_runtime.text.detok import IncrementalDetokenizer
from agentkit_runtime.text.stop import StopScanner
from agentkit_runtime.text.stream import GenerationText
from agentkit_runtime.text.tokenizer import Tokenizer
from tests.runtime.text.vocabularies import tiny_metadata


@given(data=st.data())
@settings(max_examples=200, deadline=None)
def test_pushed_text_adds_up_to_the_decoded_ids(tiny: Tokenizer, data: st.DataObject) -> None:
    """Also for ids that are no text: half characters, special tokens, ids past the vocabulary."""
    ids = data.draw(st.lists(st.integers(0, tiny.vocab_size + 3), max_size=40))
    stream = IncrementalDetokenizer(tiny)
    assert "".join(map(stream.push, ids)) + stream.finish() == tiny.decode(ids)


@given(text=st.text(st.characters(codec="utf-8"), max_size=30))
@example("🙂‍🙂 東京")
@settings(max_examples=100, deadline=None)
def test_no_push_shows_half_a_character(tiny: Tokenizer, text: str) -> None:
    stream = IncrementalDetokenizer(tiny)
    shown = ""
    for token_id in tiny.encode(text):
        shown += stream.push(token_id)
        assert text.startswith(shown)
    assert stream.finish() == ""
    assert shown == text


def test_an_unfinished_character_comes_out_only_at_the_end(tiny: Tokenizer) -> None:
    stream = IncrementalDetokenizer(tiny)
    ids = tiny.encode("🙂")
    assert [stream.push(token_id) for token_id in ids[:3]] == ["", "", ""]
    assert stream.finish() == "�"
    assert stream.finish() == ""


def test_special_tokens_are_not_shown_save_those_of_tool_calls() -> None:
    control = ("<|im_start|>", "<|im_end|>", "[TOOL_CALLS]")
    tokenizer = Tokenizer.from_gguf(tiny_metadata(control=control))
    stream = IncrementalDetokenizer(tokenizer)
    shown = [stream.push(token_id) for token_id in (0, 2, *tokenizer.encode(" ["), 1)]
    assert "".join(shown) == "[TOOL_CALLS] ["


STOPS = st.lists(st.text("ab<", min_size=1, max_size=4), max_size=3)


def scan(stops: list[str], pieces: list[str]) -> tuple[str, bool]:
    scanner = StopScanner(stops)
    out, stopped = "", False
    for piece in pieces:
        scanned = scanner.push(piece)
        out, stopped = out + scanned.text, scanned.stopped
    return out + scanner.finish(), stopped


def first_stop(stops: list[str], text: str) -> tuple[str, bool]:
    """Oracle: look at every beginning of the text; the first that ends in a stop string counts."""
    for end in range(len(text) + 1):
        ending = [stop for stop in stops if text[:end].endswith(stop)]
        if ending:
            return text[: end - max(map(len, ending))], True
    return text, False


@given(stops=STOPS, pieces=st.lists(st.text("ab<c", max_size=5), max_size=8))
@settings(max_examples=400)
def test_text_is_cut_at_the_first_stop_whatever_the_pieces(
    stops: list[str], pieces: list[str]
) -> None:
    """R41. Fault: a stop string across tokens was shown in part, or missed."""
    assert scan(stops, pieces) == first_stop(stops, "".join(pieces))


@given(stops=STOPS, text=st.text("ab<c", max_size=20))
def test_what_is_shown_is_never_taken_back(stops: list[str], text: str) -> None:
    expected, _ = first_stop(stops, text)
    scanner = StopScanner(stops)
    shown = ""
    for character in text:
        shown += scanner.push(character).text
        assert expected.startswith(shown)


def test_only_what_could_become_a_stop_is_held_back() -> None:
    scanner = StopScanner(["</done>"])
    assert scanner.push("a <b> </d").text == "a <b> "
    assert scanner.push("iv>").text == "</div>"
    assert scanner.push("x</don").text == "x"
    assert scanner.finish() == "</don"


def test_nothing_comes_out_after_a_stop() -> None:
    scanner = StopScanner(["END"])
    stopped = scanner.push("a END b")
    assert (stopped.text, stopped.stopped) == ("a ", True)
    later = scanner.push("more")
    assert (later.text, later.stopped) == ("", True)
    assert scanner.finish() == ""


def test_empty_stop_strings_are_refused() -> None:
    with pytest.raises(ValueError, match="empty"):
        StopScanner(["a", ""])


def test_a_stop_string_across_tokens_is_cut_exactly(smollm2: Tokenizer) -> None:
    """R41."""
    text = GenerationText(smollm2, ["\nUser:"])
    shown, stopped = "", False
    for token_id in smollm2.encode("The answer is 4.\nUser: next"):
        delta = text.push(token_id)
        shown, stopped = shown + delta.text, stopped or delta.stopped
    assert stopped
    assert shown + text.finish() == "The answer is 4."


def test_what_was_held_back_comes_out_at_the_end(smollm2: Tokenizer) -> None:
    """R41. Fault: what could have become a stop string was lost at the end."""
    text = GenerationText(smollm2, ["\nUser:"])
    shown = "".join(text.push(token_id).text for token_id in smollm2.encode("Hi\nUse"))
    assert (shown, text.finish()) == ("Hi", "\nUse")


def test_an_unfinished_character_before_a_held_back_text_is_not_lost(tiny: Tokenizer) -> None:
    text = GenerationText(tiny, ["�x"])
    ids = [*tiny.encode("a"), tiny.encode("é")[0]]
    shown = "".join(text.push(token_id).text for token_id in ids)
    assert shown + text.finish() == "a�"
