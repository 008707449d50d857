"""Loading tokenizer and template: what is damaged or of no use is refused by the file's name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agentkit_runtime.errors import UnsupportedModel
from agentkit_runtime.load_text import load_text
from tests.runtime.text.vocabularies import spacing_tokenizer

GOOD = "{{ messages[-1].content }}"
ENDLESS = "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model folder with a tokenizer and no template."""
    spacing_tokenizer(tmp_path, "prepend")
    return tmp_path


def put_config(folder: Path, chat_template: object) -> None:
    text = json.dumps({"eos_token": "</s>", "chat_template": chat_template})
    (folder / "tokenizer_config.json").write_text(text, encoding="utf-8")


def test_a_template_of_its_own_file_is_used(folder: Path) -> None:
    put_config(folder, "other")
    (folder / "chat_template.jinja").write_text(GOOD, encoding="utf-8")
    assert load_text(folder)[1].source == GOOD


@pytest.mark.parametrize(
    "chat_template",
    [GOOD, [{"name": "tool_use", "template": "x"}, {"name": "default", "template": GOOD}]],
)
def test_a_template_of_the_configuration_is_used(folder: Path, chat_template: object) -> None:
    put_config(folder, chat_template)
    assert load_text(folder)[1].source == GOOD


@pytest.mark.parametrize("name", ["tokenizer.json", "tokenizer_config.json", "chat_template.jinja"])
def test_files_that_are_not_utf8_are_refused_by_name(folder: Path, name: str) -> None:
    put_config(folder, GOOD)
    (folder / name).write_bytes(b"\xff\xfe")
    with pytest.raises(UnsupportedModel, match=rf"{name}' is not UTF-8"):
        load_text(folder)


@pytest.mark.parametrize(
    "chat_template", [["x"], [["default", "x"]], [{"template": "x"}], 5, {"default": GOOD}]
)
def test_a_configured_template_of_another_shape_is_refused(
    folder: Path, chat_template: object
) -> None:
    put_config(folder, chat_template)
    with pytest.raises(UnsupportedModel, match=r"tokenizer_config.json': chat_template"):
        load_text(folder)


@pytest.mark.parametrize("chat_template", [None, [], [{"name": "tool_use", "template": GOOD}]])
def test_a_model_without_a_template_is_refused(folder: Path, chat_template: object) -> None:
    put_config(folder, chat_template)
    with pytest.raises(UnsupportedModel, match="has no chat template"):
        load_text(folder)


@pytest.mark.parametrize(
    "source", ["", "hello", ENDLESS, "{{ messages[0].nope.x }}", "{{ raise_exception('no') }}"]
)
def test_a_template_that_shows_no_user_text_is_refused(folder: Path, source: str) -> None:
    (folder / "chat_template.jinja").write_text(source, encoding="utf-8")
    with pytest.raises(UnsupportedModel, match="does not put a user's message"):
        load_text(folder)
