"""Chat templates: the sandbox, the fixed day, and what the probe finds out."""

from __future__ import annotations

import datetime

import pytest

from agentkit_runtime.errors import RequestRejected, UnsupportedModel
from agentkit_runtime.text.template import ChatTemplate
from agentkit_runtime.text.template_json import VerbatimJson
from tests.runtime.text import templates

USER = {"role": "user", "content": "hi"}


def test_the_bundled_template_renders_as_published(smollm2_template: ChatTemplate) -> None:
    system = {"role": "system", "content": "Be brief."}
    assert smollm2_template.render([system, USER]) == (
        "<|im_start|>system\nBe brief.<|im_end|>\n"
        "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
    )
    assert smollm2_template.render([USER], add_generation_prompt=False) == (
        "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face"
        "<|im_end|>\n<|im_start|>user\nhi<|im_end|>\n"
    )


def test_the_bundled_template_knows_no_tools_and_only_appends(
    smollm2_template: ChatTemplate,
) -> None:
    traits = smollm2_template.traits
    assert not traits.supports_tools
    assert traits.supports_system
    assert traits.supports_mid_system
    assert traits.supports_repeated_user
    assert traits.appends_only
    assert traits.not_appending == ()


def test_a_template_with_tools_is_recognised() -> None:
    traits = ChatTemplate(templates.QWEN).traits
    assert traits.supports_tools
    assert traits.supports_mid_system
    assert traits.appends_only


def test_a_template_that_reformats_arguments_counts_as_without_tools() -> None:
    assert ChatTemplate(templates.REFORMATTING).mentions_tools
    assert not ChatTemplate(templates.REFORMATTING).traits.supports_tools


def test_refusals_and_dropped_messages_are_found_out() -> None:
    alternating = ChatTemplate(templates.ALTERNATING).traits
    assert not alternating.supports_system
    assert not alternating.supports_mid_system
    assert not alternating.supports_repeated_user
    front = ChatTemplate(templates.FRONT_SYSTEM).traits
    assert front.supports_system
    assert not front.supports_mid_system


def test_a_template_that_rewrites_what_it_wrote_is_reported() -> None:
    traits = ChatTemplate(templates.LAST_USER).traits
    assert not traits.appends_only
    assert set(traits.not_appending) == {"system", "user", "assistant"}


def test_templates_are_rendered_in_a_sandbox() -> None:
    template = ChatTemplate("{{ messages.__class__.__mro__ }}")
    with pytest.raises(RequestRejected, match="chat template"):
        template.render([USER])
    with pytest.raises(RequestRejected, match="chat template"):
        ChatTemplate("{% for i in range(999999999) %}x{% endfor %}").render([USER])


def test_a_template_cannot_change_the_messages() -> None:
    template = ChatTemplate("{% set _ = messages.append(1) %}x")
    with pytest.raises(RequestRejected, match="chat template"):
        template.render([USER])


def test_what_the_template_refuses_is_the_requests_fault_with_its_words() -> None:
    template = ChatTemplate("{{ raise_exception('only users here') }}")
    with pytest.raises(RequestRejected, match="only users here") as caught:
        template.render([USER])
    assert caught.value.field == "messages"


@pytest.mark.parametrize("source", ["{{ 1 + messages }}", "{{ 1 / 0 }}", "{{ messages[5].x.y }}"])
def test_errors_inside_a_template_are_reported_and_not_raised_bare(source: str) -> None:
    with pytest.raises(RequestRejected, match="chat template"):
        ChatTemplate(source).render([USER])


def test_a_source_that_is_no_template_is_refused() -> None:
    with pytest.raises(UnsupportedModel, match="compiled"):
        ChatTemplate("{% for %}")


def test_there_is_no_clock() -> None:
    source = "{{ strftime_now('%d %b %Y') }}"
    template = ChatTemplate(source)
    assert template.uses_clock
    assert template.render([USER]) == "26 Jul 2024"
    other = ChatTemplate(source, today=datetime.date(2030, 1, 2))
    assert other.render([USER]) == "02 Jan 2030"
    assert template.fingerprint != other.fingerprint
    assert not ChatTemplate("x").uses_clock


def test_the_fingerprint_names_source_and_tokens() -> None:
    assert ChatTemplate("x").fingerprint == ChatTemplate("x").fingerprint
    different = [ChatTemplate("x"), ChatTemplate("y"), ChatTemplate("x", bos_text="<s>")]
    assert len({template.fingerprint for template in different}) == 3


def test_special_token_names_are_known_to_the_template() -> None:
    template = ChatTemplate("{{ bos_token }}|{{ eos_token }}", bos_text="<s>", eos_text="</s>")
    assert template.render([USER]) == "<s>|</s>"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("{{ v | tojson }}", '{"a": "<é>", "b": [1, true, null]}'),
        ("{{ v | tojson(indent=1) }}", '{\n "a": "<é>",\n "b": [\n  1,\n  true,\n  null\n ]\n}'),
        ("{{ v | tojson(separators=(',', ':')) }}", '{"a":"<é>","b":[1,true,null]}'),
        ("{{ v | tojson(ensure_ascii=True) }}", '{"a": "<\\u00e9>", "b": [1, true, null]}'),
        ("{{ v | tojson(sort_keys=True) }}", '{"a": "<é>", "b": [1, true, null]}'),
    ],
)
def test_tojson_is_plain_json(source: str, expected: str) -> None:
    template = ChatTemplate("{% set v = messages[0].v %}" + source)
    assert template.render([{"v": {"a": "<é>", "b": [1, True, None]}}]) == expected


def test_generated_json_passes_through_tojson_untouched() -> None:
    exact = VerbatimJson('{"a":  1.50,"a":2}')
    template = ChatTemplate("{{ messages[0] | tojson }} {{ messages[0].f | tojson }}")
    rendered = template.render([{"f": exact, "n": [exact]}])
    assert rendered == f'{{"f": {exact}, "n": [{exact}]}} {exact}'


def test_marks_survive_ascii_json() -> None:
    template = ChatTemplate("{{ messages[0].content | tojson(ensure_ascii=True) }}")
    assert template.render([{"content": "<\ufdd0x\ufdef"}]) == '"<\ufdd0x\ufdef"'


def test_training_marks_and_loop_controls_are_understood() -> None:
    source = "{% for m in messages %}{% generation %}{{ m.content }}{% endgeneration %}{% break %}"
    template = ChatTemplate(source + "{% endfor %}")
    assert template.render([USER, USER]) == "hi"
