"""Tokenizer and chat template of a model, from its GGUF file or its folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from agentkit_runtime.errors import UnsupportedModel
from agentkit_runtime.loading.gguf_file import GgufFile
from agentkit_runtime.text.template import ChatTemplate
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
        UnsupportedModel: the tokenizer is unknown, or there is no chat template.
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
    return tokenizer, ChatTemplate(
        template, bos_text=tokenizer.bos_text or "", eos_text=tokenizer.eos_text or ""
    )


def _folder_template(folder: Path) -> str | None:
    """`chat_template.jinja` wins over `tokenizer_config.json`, as in transformers."""
    jinja = folder / "chat_template.jinja"
    if jinja.is_file():
        return jinja.read_text("utf-8")
    config = folder / "tokenizer_config.json"
    if not config.is_file():
        return None
    loaded = json.loads(config.read_text("utf-8"))
    named = loaded.get("chat_template") if isinstance(loaded, dict) else None
    if isinstance(named, list):  # several named templates
        named = {item.get("name"): item.get("template") for item in named}.get("default")
    return named if isinstance(named, str) else None


def _text(metadata: Mapping[str, object], key: str) -> str | None:
    value = metadata.get(key)
    return value if isinstance(value, str) else None
