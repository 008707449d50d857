"""Templates that say earlier turns otherwise later: found at load, avoided where they allow it."""

from __future__ import annotations

import datetime

import pytest

from agentkit_runtime.text.rewrites import find_rewrites, least_rewriting
from agentkit_runtime.text.template import ChatTemplate
from tests.runtime.text import templates
from tests.runtime.text.rewriting import GLM, QWEN3, REWRITING


@pytest.mark.parametrize(
    ("name", "kinds", "left"),
    [
        ("qwen3", ["thinking"], ["thinking"]),
        ("glm", ["thinking"], []),
        ("preserving", ["thinking"], []),
        ("deepseek", ["thinking"], ["thinking"]),
        ("llama31", ["space", "date"], ["space", "date"]),
        ("mistral", ["tools"], ["tools"]),
        ("smollm3", ["date"], ["date"]),
    ],
)
def test_what_a_family_rewrites_is_found_and_avoided_where_it_has_a_switch(
    name: str, kinds: list[str], left: list[str]
) -> None:
    """R38 (the date)."""
    template = ChatTemplate(REWRITING[name])

    assert [rewrite.kind for rewrite in find_rewrites(template)] == kinds
    assert [rewrite.kind for rewrite in find_rewrites(least_rewriting(template))] == left


@pytest.mark.parametrize("source", [templates.QWEN, templates.FRONT_SYSTEM])
def test_templates_that_only_append_rewrite_nothing(source: str) -> None:
    template = ChatTemplate(source)
    assert find_rewrites(template) == ()
    assert least_rewriting(template) is template


def test_the_bundled_template_rewrites_nothing(smollm2_template: ChatTemplate) -> None:
    assert find_rewrites(smollm2_template) == ()


def test_a_rewrite_shows_both_texts_from_where_they_part() -> None:
    (rewrite,) = find_rewrites(ChatTemplate(QWEN3))

    assert rewrite.before == "<think>\nprobeT1\n</think>\n\nprobeA1"
    assert rewrite.after.startswith("probeA1<|im_end|>")
    assert rewrite.lost_chars == len(rewrite.before)
    assert "thinking" in rewrite.detail


def test_a_decorated_last_message_is_found_once_and_not_with_every_sample() -> None:
    assert [rewrite.kind for rewrite in find_rewrites(ChatTemplate(templates.LAST_USER))] == [
        "reply"
    ]


def test_a_template_that_refuses_samples_is_no_failure() -> None:
    assert find_rewrites(ChatTemplate("{{ raise_exception('no') }}")) == ()


def test_switches_are_part_of_the_fingerprint() -> None:
    template = ChatTemplate(GLM)
    changed = least_rewriting(template)

    assert changed.switches == {"clear_thinking": False}
    assert changed.fingerprint != template.fingerprint
    assert ChatTemplate(GLM).fingerprint == template.fingerprint


def test_the_day_can_be_given_and_is_a_day() -> None:
    """R38: no clock, day grain."""
    messages = [{"role": "user", "content": "hi"}]
    source = REWRITING["llama31"]
    held = ChatTemplate(source).render(messages)
    given = ChatTemplate(source, today=datetime.date(2026, 1, 2)).render(messages)

    assert "26 Jul 2024" in held
    assert "02 Jan 2026" in given
