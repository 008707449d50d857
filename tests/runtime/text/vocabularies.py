"""Vocabularies small enough to read, with the added tokens that a test wants."""

from __future__ import annotations

from pathlib import Path

from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models, normalizers, pre_tokenizers

from agentkit_runtime.text.token_bytes import byte_alphabet
from agentkit_runtime.text.tokenizer import Tokenizer


def tiny_metadata(
    *,
    control: tuple[str, ...] = ("<|im_start|>", "<|im_end|>"),
    user_defined: tuple[str, ...] = (),
    merges: tuple[str, ...] = ("h e", "l l", "he ll", "hell o"),
    pre: str = "gpt-2",
    **extra: object,
) -> dict[str, object]:
    """GGUF metadata of a byte-level vocabulary: all 256 bytes, some merges, some added tokens."""
    tokens = [*control, *user_defined, *byte_alphabet()]
    tokens += [merge.replace(" ", "") for merge in merges]
    kinds = {**dict.fromkeys(control, 3), **dict.fromkeys(user_defined, 4)}
    eos = control.index("<|im_end|>") if "<|im_end|>" in control else 0
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": pre,
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [kinds.get(token, 1) for token in tokens],
        "tokenizer.ggml.merges": list(merges),
        "tokenizer.ggml.eos_token_id": eos,
        **{f"tokenizer.ggml.{name}": value for name, value in extra.items()},
    }


def spacing_tokenizer(folder: Path, kind: str) -> Tokenizer:
    """A SentencePiece-like vocabulary that puts a space in front of each text it encodes."""
    pieces = ["<unk>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), "\u2581"]
    pieces += [chr(code) for code in range(33, 127)]
    merges = [("\u2581", "{"), ("\u2581", "<"), ('"', "n")]
    pieces += [first + second for first, second in merges]
    ids = {piece: token_id for token_id, piece in enumerate(pieces)}
    backend = Backend(
        models.BPE(vocab=ids, merges=merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True)
    )
    backend.add_special_tokens(["</s>"])
    bytes_back = [decoders.ByteFallback(), decoders.Fuse()]
    if kind == "prepend":
        spaces = [normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")]
        backend.normalizer = normalizers.Sequence(spaces)
        backend.decoder = decoders.Sequence(
            [decoders.Replace("\u2581", " "), *bytes_back, decoders.Strip(" ", 1, 0)]
        )
    else:
        backend.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always", split=False)
        backend.decoder = decoders.Sequence(
            [decoders.Metaspace(prepend_scheme="always"), *bytes_back]
        )
    backend.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text('{"eos_token": "</s>"}', encoding="utf-8")
    return Tokenizer.from_folder(folder)
