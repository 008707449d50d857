"""Tokenizer and chat template of a model, from its GGUF file or its folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from agentkit_runtime.errors import UnsupportedModel
from agentkit_runtime.loading.gguf_file import GgufFile
from agentkit_runtime.text.folder_vocabulary import read_json, read_text
from agentkit_runtime.text.rewrites import least_rewriting
from agentkit_runtime.text.template import ChatTemplate
from agentkit_runtime.text.template_probe import shows_user_text
from agentkit_runtime.text.tokenizer import Tokenizer

CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content']"
    " + '<|im_end|>' + '\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
"""Used when a model ships no template but knows ChatML's special tokens."""


def load_text(source: Path) -> tuple[Tokenizer, ChatTemplate]:
    """Read tokenizer and template from a `.gguf` file or a model folder.

    Raises:
        UnsupportedModel: the tokenizer is unknown, a file is damaged, or there is no chat template
            that puts the user's messages into the prompt.
    """
    if source.is_dir():
        tokenizer = Tokenizer.from_folder(source)
        template = _folder_template(source)
    else:
        metadata = GgufFile(source).metadata
        tokenizer = Tokenizer.from_gguf(metadata)
        template = _text(metadata, "tokenizer.chat_template")
    if template is None and {"<|im_start|>", "<|im_end|>"} <= set(tokenizer.special_texts):
        template = CHATML
    if template is None:
        raise UnsupportedModel(
            f"{str(source)!r} has no chat template; use an instruct model, "
            "or put a chat_template.jinja into its folder"
        )
    compiled = ChatTemplate(
        template, bos_text=tokenizer.bos_text or "", eos_text=tokenizer.eos_text or ""
    )
    if not shows_user_text(compiled):
        raise UnsupportedModel(
            f"the chat template of {str(source)!r} does not put a user's message into the prompt; "
            "use an instruct model, or put another chat_template.jinja into its folder"
        )
    return tokenizer, least_rewriting(compiled)


def _folder_template(folder: Path) -> str | None:
    """`chat_template.jinja` wins over `tokenizer_config.json`, as in transformers."""
    jinja = folder / "chat_template.jinja"
    if jinja.is_file():
        return read_text(jinja)
    config = folder / "tokenizer_config.json"
    named = read_json(config).get("chat_template")
    if isinstance(named, list):
        named = _default_template(named, config)
    if named is None or isinstance(named, str):
        return named
    raise UnsupportedModel(
        f"{str(config)!r}: chat_template is a {type(named).__name__}, not a text"
    )


def _default_template(named: list[object], config: Path) -> object:
    """The template called `default` in a list of templates; None if there is none."""
    templates: dict[object, object] = {}
    for item in named:
        if not isinstance(item, Mapping) or not isinstance(item.get("name"), str):
            raise UnsupportedModel(
                f"{str(config)!r}: chat_template lists {item!r:.100}, "
                "not an object with name and template"
            )
        templates[item["name"]] = item.get("template")
    return templates.get("default")


def _text(metadata: Mapping[str, object], key: str) -> str | None:
    value = metadata.get(key)
    return value if isinstance(value, str) else None
