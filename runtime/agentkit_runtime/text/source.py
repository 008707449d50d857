"""Opens the text side of a model: its tokenizer and its chat template."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from agentkit_runtime.errors import UnsupportedModel
from agentkit_runtime.loading.gguf_file import GgufFile
from agentkit_runtime.text.folder_vocabulary import read_json
from agentkit_runtime.text.template import ChatTemplate
from agentkit_runtime.text.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class TextSource:
    """A model's tokenizer and template."""

    tokenizer: Tokenizer
    template: ChatTemplate


def open_text(path: Path) -> TextSource:
    """Open `ModelFiles.tokenizer`: a `.gguf` file, or a folder with `tokenizer.json`.

    Raises `UnsupportedModel` if the tokenizer is not known or there is no chat template.
    """
    if path.is_dir():
        tokenizer, source = Tokenizer.from_folder(path), _folder_template(path)
    else:
        file = GgufFile(path)
        try:
            tokenizer = Tokenizer.from_gguf(file.metadata)
            source = file.metadata.get("tokenizer.chat_template")
        finally:
            file.close()
    if not isinstance(source, str):
        raise UnsupportedModel(
            f"{str(path)!r} has no chat template; use an instruction-tuned (chat) model"
        )
    template = ChatTemplate(source, bos_text=tokenizer.bos_text, eos_text=tokenizer.eos_text)
    return TextSource(tokenizer, template)


def _folder_template(folder: Path) -> object:
    """`chat_template.jinja`, or what the configuration holds: one source or several with names."""
    file = folder / "chat_template.jinja"
    if file.is_file():
        return file.read_text(encoding="utf-8")
    value = read_json(folder / "tokenizer_config.json").get("chat_template")
    if isinstance(value, list):
        named = {item.get("name"): item.get("template") for item in value if _is_named(item)}
        return named.get("tool_use", named.get("default"))
    return value


def _is_named(item: object) -> bool:
    return isinstance(item, Mapping) and "name" in item
