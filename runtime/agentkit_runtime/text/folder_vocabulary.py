"""A model folder with `tokenizer.json` -> `Vocabulary`.

`tokenizer.json` holds the tokenizer itself; which tokens begin and end a text stands in
`tokenizer_config.json`, `generation_config.json` and `config.json`, where these exist.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

from tokenizers import Tokenizer

from agentkit_runtime.errors import UnsupportedModel
from agentkit_runtime.text.token_bytes import BytesStyle
from agentkit_runtime.text.vocabulary import Vocabulary, end_of_turn_ids

JsonObject: TypeAlias = Mapping[str, object]


def folder_vocabulary(folder: Path) -> Vocabulary:
    """Read the tokenizer of a model folder.

    Raises `UnsupportedModel` if there is no `tokenizer.json` or its decoder is not known.
    """
    path = folder / "tokenizer.json"
    if not path.is_file():
        raise UnsupportedModel(f"{str(folder)!r} has no tokenizer.json")
    raw = read_text(path)
    description = _parsed(raw, path)
    backend = _backend(raw, path)
    config = read_json(folder / "tokenizer_config.json")
    special_ids = {
        token.content: token_id
        for token_id, token in backend.get_added_tokens_decoder().items()
        if token.special
    }
    bos, eos = token_text(config.get("bos_token")), token_text(config.get("eos_token"))
    eos_ids = _ending_ids(folder)
    if eos in special_ids:
        eos_ids |= {special_ids[eos]}
    parts = _flattened(description.get("decoder"))
    return Vocabulary(
        backend=backend,
        bytes_style=_bytes_style(parts, path),
        bos_text=bos,
        eos_text=eos,
        eos_ids=eos_ids | end_of_turn_ids(special_ids),
        adds_bos=_adds_bos(backend, special_ids.get(bos or "")),
        strips_leading_space=any(_strips_space(part) for part in parts),
        continuation=_continuation(description),
    )


def read_json(path: Path) -> JsonObject:
    """The object in a JSON file; empty if there is no such file."""
    return _parsed(read_text(path), path) if path.is_file() else {}


def read_text(path: Path) -> str:
    """The text of a model's file. `UnsupportedModel`, naming the file, if it is not UTF-8."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise UnsupportedModel(
            f"{str(path)!r} is not UTF-8 text ({error}); download it again"
        ) from error


def token_text(value: object) -> str | None:
    """A token as configuration files write it: its text, or an object with `content`."""
    if isinstance(value, Mapping):
        value = value.get("content")
    return value if isinstance(value, str) and value else None


def _parsed(raw: str, path: Path) -> JsonObject:
    try:
        value = json.loads(raw)
    except ValueError as error:
        raise UnsupportedModel(f"{str(path)!r} is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise UnsupportedModel(f"{str(path)!r} does not hold a JSON object")
    return value


def _backend(raw: str, path: Path) -> Tokenizer:
    try:
        backend = Tokenizer.from_str(raw)
    except Exception as error:  # the binding raises bare Exception
        raise UnsupportedModel(f"{str(path)!r} cannot be read by tokenizers: {error}") from error
    backend.no_truncation()
    backend.no_padding()
    return backend


def _ending_ids(folder: Path) -> frozenset[int]:
    for name in ("generation_config.json", "config.json"):
        value = read_json(folder / name).get("eos_token_id")
        ids = value if isinstance(value, list) else [value]
        found = frozenset(item for item in ids if isinstance(item, int))
        if found:
            return found
    return frozenset()


def _flattened(node: object) -> list[JsonObject]:
    """The steps of a (possibly nested) `Sequence` in tokenizer.json."""
    if not isinstance(node, dict):
        return []
    if node.get("type") != "Sequence":
        return [node]
    children = node.get("decoders") or node.get("pretokenizers") or node.get("normalizers") or []
    return [part for child in children for part in _flattened(child)]


def _bytes_style(parts: list[JsonObject], path: Path) -> BytesStyle:
    kinds = {part.get("type") for part in parts}
    if "ByteLevel" in kinds:
        return "byte-level"
    if kinds & {"ByteFallback", "Metaspace"}:
        return "metaspace"
    raise UnsupportedModel(
        f"{str(path)!r}: the decoder {sorted(map(str, kinds))} is not implemented; "
        "known are ByteLevel, ByteFallback and Metaspace"
    )


def _strips_space(part: JsonObject) -> bool:
    if part.get("type") == "Strip":
        return part.get("content") == " " and bool(part.get("start"))
    if part.get("type") == "Metaspace":
        return part.get("prepend_scheme", "always") != "never"
    return False


def _adds_bos(backend: Tokenizer, bos_id: int | None) -> bool:
    """Whether the post-processor puts BOS in front (asked by trial, there are several kinds)."""
    ids = backend.encode("", add_special_tokens=True).ids
    return bos_id is not None and ids[:1] == [bos_id]


def _continuation(description: JsonObject) -> Tokenizer | None:
    """The same tokenizer for pieces inside a text, where the first piece alone gets a space."""
    changed = copy.deepcopy(dict(description))
    steps = _flattened(changed.get("pre_tokenizer"))
    first_only = [step for step in steps if step.get("prepend_scheme") == "first"]
    if not first_only:
        return None
    for step in first_only:
        if isinstance(step, dict):
            step["prepend_scheme"] = "never"
    return Tokenizer.from_str(json.dumps(changed))
