"""What keys look like, and what they are told from."""

from __future__ import annotations

import re

import pytest

from agentkit_runtime.tenancy.key import digest, is_key, new_key, shown


def test_a_key_is_recognised_by_its_form() -> None:
    key = new_key()

    assert re.fullmatch(r"ak_live_[0-9A-Za-z]{49}", key)
    assert is_key(key)
    assert key.startswith(shown(key))
    assert len(shown(key)) == 12


def test_no_two_keys_are_alike() -> None:
    keys = {new_key() for _ in range(200)}

    assert (
        len(keys) == len({digest(key) for key in keys}) == len({key[8:20] for key in keys}) == 200
    )


@pytest.mark.parametrize("position", range(8, 57))
def test_a_changed_character_is_noticed(position: int) -> None:
    key = new_key()
    other = "a" if key[position] != "a" else "b"

    assert not is_key(key[:position] + other + key[position + 1 :])


@pytest.mark.parametrize("text", ["", "ak_live_", "sk-" + "a" * 49, "ak_live_" + "é" * 49])
def test_other_texts_are_no_keys(text: str) -> None:
    assert not is_key(text)


def test_a_key_with_something_around_it_is_none() -> None:
    key = new_key()

    assert not any(map(is_key, (key[:-1], f"{key}\n", f" {key}", f"{key}a")))
