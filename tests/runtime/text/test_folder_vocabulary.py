"""Tokenizers from `tokenizer.json`: byte-level and SentencePiece style."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers, processors
from tokenizers import Tokenizer as Backend

from agentkit_runtime.errors import UnsupportedModel
from agentkit_runtime.text.detok import IncrementalDetokenizer
from agentkit_runtime.text.token_bytes import byte_alphabet
from agentkit_runtime.text.tokenizer import Tokenizer


def save(folder: Path, backend: Backend, **files: object) -> Path:
    backend.save(str(folder / "tokenizer.json"))
    for name, value in files.items():
        (folder / f"{name}.json").write_text(json.dumps(value), encoding="utf-8")
    return folder


def byte_level() -> Backend:
    tokens = [*byte_alphabet(), "he"]
    backend = Backend(models.BPE(vocab={t: i for i, t in enumerate(tokens)}, merges=[("h", "e")]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens(["<|bos|>", "<|eos|>"])
    backend.add_tokens(["<tool_call>"])
    return backend


def sentencepiece(scheme: str) -> Backend:
    """As converted Llama-2-like models are: U+2581 for spaces, bytes as a fallback."""
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁", *"hello"]
    vocab = {token: i for i, token in enumerate(dict.fromkeys(tokens))}
    backend = Backend(models.BPE(vocab=vocab, merges=[], unk_token="<unk>", byte_fallback=True))
    if scheme == "normalizer":
        backend.normalizer = normalizers.Sequence(
            [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
        )
    else:
        backend.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme, split=False)
    backend.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    backend.add_special_tokens(["<s>", "</s>"])
    return backend


def test_special_and_other_added_tokens_keep_their_kinds(tmp_path: Path) -> None:
    tokenizer = Tokenizer.from_folder(save(tmp_path, byte_level()))
    assert tokenizer.special_texts == ("<|bos|>", "<|eos|>")
    bos, call = (tokenizer.backend.token_to_id(text) for text in ("<|bos|>", "<tool_call>"))
    assert tokenizer.encode_rendered("<|bos|>he", None) == [bos, *tokenizer.encode("he")]
    assert call in tokenizer.encode("a<tool_call>")
    assert bos not in tokenizer.encode("<|bos|>")


def test_ends_come_from_all_configuration_files(tmp_path: Path) -> None:
    backend = byte_level()
    save(
        tmp_path,
        backend,
        tokenizer_config={"bos_token": {"content": "<|bos|>"}, "eos_token": "<|eos|>"},
        generation_config={"eos_token_id": [3, 4]},
        config={"eos_token_id": 9},
    )
    tokenizer = Tokenizer.from_folder(tmp_path)
    assert (tokenizer.bos_text, tokenizer.eos_text) == ("<|bos|>", "<|eos|>")
    assert tokenizer.eos_ids == {3, 4, backend.token_to_id("<|eos|>")}


def test_a_post_processor_that_adds_bos_is_only_used_without_a_template(tmp_path: Path) -> None:
    backend = byte_level()
    bos = backend.token_to_id("<|bos|>")
    backend.post_processor = processors.TemplateProcessing(
        single="<|bos|> $A", special_tokens=[("<|bos|>", bos)]
    )
    tokenizer = Tokenizer.from_folder(
        save(tmp_path, backend, tokenizer_config={"bos_token": "<|bos|>"})
    )
    assert bos not in tokenizer.encode("he")
    assert tokenizer.encode_prompt("he") == [bos, *tokenizer.encode("he")]


def test_truncation_and_padding_settings_of_the_file_are_off(tmp_path: Path) -> None:
    backend = byte_level()
    backend.enable_truncation(2)
    backend.enable_padding(length=50)
    tokenizer = Tokenizer.from_folder(save(tmp_path, backend))
    assert tokenizer.decode(tokenizer.encode("a long text")) == "a long text"


def test_a_special_token_can_swallow_the_white_space_beside_it(tmp_path: Path) -> None:
    backend = byte_level()
    backend.add_special_tokens([AddedToken("<|end|>", special=True, lstrip=True, rstrip=True)])
    tokenizer = Tokenizer.from_folder(save(tmp_path, backend))
    end = backend.token_to_id("<|end|>")
    rendered = tokenizer.encode_rendered("a  <|end|>\n b", None)
    assert rendered == [*tokenizer.encode("a"), end, *tokenizer.encode("b")]


@pytest.mark.parametrize("scheme", ["first", "always", "normalizer"])
def test_sentencepiece_text_has_the_ids_of_the_backend(tmp_path: Path, scheme: str) -> None:
    """Splitting at special tokens ourselves must not move the spaces that the vocabulary adds."""
    tokenizer = Tokenizer.from_folder(save(tmp_path, sentencepiece(scheme)))
    reference = Backend.from_file(str(tmp_path / "tokenizer.json"))
    for text in ("hello", "<s>hello</s> hello", "hello<s>\nhello 東"):
        expected = reference.encode(text, add_special_tokens=False).ids
        assert tokenizer.encode_rendered(text, None) == expected


def test_sentencepiece_bytes_and_spaces_come_back_as_text(tmp_path: Path) -> None:
    tokenizer = Tokenizer.from_folder(save(tmp_path, sentencepiece("first")))
    ids = tokenizer.encode("hello  東 🙂")
    assert tokenizer.decode(ids) == "hello  東 🙂"
    stream = IncrementalDetokenizer(tokenizer)
    assert "".join(map(stream.push, ids)) + stream.finish() == "hello  東 🙂"


def test_a_folder_without_a_usable_tokenizer_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedModel, match=r"no tokenizer\.json"):
        Tokenizer.from_folder(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{", encoding="utf-8")
    with pytest.raises(UnsupportedModel, match="not JSON"):
        Tokenizer.from_folder(tmp_path)
    (tmp_path / "tokenizer.json").write_text("[]", encoding="utf-8")
    with pytest.raises(UnsupportedModel, match="JSON object"):
        Tokenizer.from_folder(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{}", encoding="utf-8")
    with pytest.raises(UnsupportedModel, match="tokenizers"):
        Tokenizer.from_folder(tmp_path)


def test_an_unknown_decoder_is_refused_by_name(tmp_path: Path) -> None:
    backend = byte_level()
    backend.decoder = decoders.WordPiece()
    with pytest.raises(UnsupportedModel, match="WordPiece"):
        Tokenizer.from_folder(save(tmp_path, backend))
