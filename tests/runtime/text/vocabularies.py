"""Vocabularies small enough to read, with the added tokens that a test wants."""

from __future__ import annotations

from agentkit_runtime.text.token_bytes import byte_alphabet


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
