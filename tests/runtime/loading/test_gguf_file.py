"""The GGUF container: every value type, every quantisation that can be written, damage."""

from __future__ import annotations

import struct
from pathlib import Path

import gguf
import numpy as np
import pytest
import torch

from agentkit_runtime.errors import UnsupportedModel
from agentkit_runtime.loading.gguf_file import GgufFile
from tests.runtime.loading.ggufs import QUANT, decoder_tensors, llama_metadata, write_gguf

WRITABLE = ["F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0"]


@pytest.fixture
def small(tmp_path: Path) -> Path:
    return write_gguf(tmp_path / "small.gguf", decoder_tensors(), llama_metadata())


@pytest.mark.parametrize("type_name", WRITABLE)
def test_tensors_are_decoded_as_the_gguf_package_decodes_them(
    tmp_path: Path, type_name: str
) -> None:
    kind = QUANT[type_name]
    weights = np.random.default_rng(1).standard_normal((6, 64), dtype=np.float32)
    path = write_gguf(tmp_path / "x.gguf", {"w": weights}, {}, types={"w": kind})
    tensor = GgufFile(path).tensor("w")
    expected = gguf.dequantize(gguf.quantize(weights, kind), kind)
    assert tensor.dtype == torch.float32
    assert tensor.shape == (6, 64)
    assert torch.equal(tensor, torch.from_numpy(np.ascontiguousarray(expected)))


def test_the_reader_agrees_with_the_packages_own(small: Path) -> None:
    ours, theirs = GgufFile(small), gguf.GGUFReader(small)
    assert set(ours.tensors) == {tensor.name for tensor in theirs.tensors}
    for tensor in theirs.tensors:
        info = ours.tensors[tensor.name]
        assert info.shape == tuple(reversed(tensor.shape.tolist()))
        assert (info.offset_bytes, info.n_bytes) == (tensor.data_offset, tensor.n_bytes)
    for key, field in theirs.fields.items():
        if not key.startswith("GGUF."):
            assert ours.metadata[key] == field.contents()


def test_every_kind_of_metadata_value_is_read(tmp_path: Path) -> None:
    path = tmp_path / "kinds.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    values: dict[str, object] = {
        "u8": 200, "i8": -100, "u16": 60_000, "i16": -30_000, "u32": 4_000_000_000,
        "i32": -2_000_000_000, "f32": 0.5, "u64": 2**63, "i64": -(2**62), "f64": 0.1,
        "bool": True, "string": "naïve\x00東京", "strings": ["", "a", "é"], "ints": [1, -2, 3],
        "floats": [0.5, 1.5], "bools": [True, False], "nested": [[1, 2], [3]],
    }  # fmt: skip
    for name, kind in [
        ("u8", "uint8"), ("i8", "int8"), ("u16", "uint16"), ("i16", "int16"), ("u32", "uint32"),
        ("i32", "int32"), ("f32", "float32"), ("u64", "uint64"), ("i64", "int64"),
        ("f64", "float64"), ("bool", "bool"), ("string", "string"), ("strings", "array"),
        ("ints", "array"), ("floats", "array"), ("bools", "array"), ("nested", "array"),
    ]:  # fmt: skip
        getattr(writer, f"add_{kind}")(name, values[name])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    metadata = GgufFile(path).metadata
    assert {name: metadata[name] for name in values} == values


def test_returned_tensors_outlive_the_file(small: Path) -> None:
    file = GgufFile(small)
    tensor = file.tensor("output_norm.weight")
    before = tensor.clone()
    file.close()
    tensor += 1
    assert torch.equal(tensor, before + 1)
    again = GgufFile(small)
    assert torch.equal(again.tensor("output_norm.weight"), before)


def test_an_unknown_tensor_name_is_a_key_error(small: Path) -> None:
    with pytest.raises(KeyError):
        GgufFile(small).tensor("nope")


def test_the_sample_digest_sees_weights_and_metadata(tmp_path: Path) -> None:
    tensors = decoder_tensors()
    first = write_gguf(tmp_path / "a.gguf", tensors, llama_metadata())
    same = write_gguf(tmp_path / "b.gguf", tensors, llama_metadata())
    tensors["output_norm.weight"][0] += 1
    weights = write_gguf(tmp_path / "c.gguf", tensors, llama_metadata())
    metadata = write_gguf(
        tmp_path / "d.gguf", decoder_tensors(), llama_metadata(context_length=129)
    )
    digests = [GgufFile(path).sample_digest() for path in (first, same, weights, metadata)]
    assert digests[0] == digests[1]
    assert len(set(digests)) == 3


@pytest.mark.parametrize("share", [0.0, 0.001, 0.02, 0.2, 0.6, 0.999])
def test_a_file_cut_short_anywhere_is_refused(small: Path, share: float) -> None:
    whole = small.read_bytes()
    cut = small.with_name("cut.gguf")
    cut.write_bytes(whole[: int(len(whole) * share)])
    with pytest.raises(UnsupportedModel, match=r"cut\.gguf"):
        GgufFile(cut)


def test_every_cut_inside_the_header_is_refused(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "x.gguf", {"w": np.ones(4, np.float32)}, {"a": "text", "b": 3})
    whole, header = path.read_bytes(), GgufFile(path).header_bytes
    for length in range(header):
        path.write_bytes(whole[:length])
        with pytest.raises(UnsupportedModel):
            GgufFile(path)


def test_other_files_are_refused_by_their_first_bytes(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(b"PK\x03\x04 a zip file")
    with pytest.raises(UnsupportedModel, match=r"not a GGUF file.*PK"):
        GgufFile(path)


@pytest.mark.parametrize(
    ("version", "message"),
    [(1, "version 1"), (4, "version 4"), (int.from_bytes(b"\0\0\0\3", "little"), "big-endian")],
)
def test_other_versions_are_refused(small: Path, version: int, message: str) -> None:
    data = bytearray(small.read_bytes())
    data[4:8] = struct.pack("<I", version)
    small.write_bytes(data)
    with pytest.raises(UnsupportedModel, match=message):
        GgufFile(small)


def damaged(small: Path, old: bytes, new: bytes) -> Path:
    data = small.read_bytes()
    assert data.count(old) == 1
    assert len(old) == len(new)
    small.write_bytes(data.replace(old, new))
    return small


def info_bytes(name: bytes, dimensions: tuple[int, ...], type_id: int) -> bytes:
    """A tensor's entry in the header, up to its offset."""
    return (
        struct.pack("<Q", len(name))
        + name
        + struct.pack(f"<I{len(dimensions)}QI", len(dimensions), *dimensions, type_id)
    )


@pytest.mark.parametrize(
    ("dimensions", "type_id", "message"),
    [
        ((64,), 999, r"output_norm\.weight.*unknown type 999"),
        ((64,), 24, r"output_norm\.weight.*type I8"),
        ((63,), 2, r"output_norm\.weight.*blocks of 32"),
        ((2**40,), 0, r"output_norm\.weight.*cut short"),
    ],
)
def test_tensors_that_cannot_be_read_are_refused_by_name(
    small: Path, dimensions: tuple[int, ...], type_id: int, message: str
) -> None:
    old = info_bytes(b"output_norm.weight", (64,), 0)
    new = info_bytes(b"output_norm.weight", dimensions, type_id)
    with pytest.raises(UnsupportedModel, match=message):
        GgufFile(damaged(small, old, new)).tensor("output_norm.weight")


def test_announced_lengths_are_checked_before_memory_is_taken(small: Path) -> None:
    key = b"general.architecture"
    old = key + struct.pack("<IQ", 8, len("llama"))
    with pytest.raises(UnsupportedModel, match="damaged"):
        GgufFile(damaged(small, old, key + struct.pack("<IQ", 8, 2**62)))


def test_an_unknown_value_type_is_refused_by_key(small: Path) -> None:
    key = b"general.architecture"
    old = key + struct.pack("<I", 8)
    with pytest.raises(UnsupportedModel, match=r"general\.architecture.*77"):
        GgufFile(damaged(small, old, key + struct.pack("<I", 77)))


def test_reading_the_bundled_header_is_fast_enough_to_do_often(smollm2_gguf: Path) -> None:
    file = GgufFile(smollm2_gguf)
    tokens = file.metadata["tokenizer.ggml.tokens"]
    assert isinstance(tokens, list)
    assert len(tokens) == 49_152
    assert file.tensors["token_embd.weight"].shape == (49_152, 576)


@pytest.mark.parametrize(("depth", "is_read"), [(3, True), (17, False), (5000, False)])
def test_nested_arrays_are_read_to_a_bounded_depth(
    tmp_path: Path, depth: int, is_read: bool
) -> None:
    key = b"deep"
    value = struct.pack("<I", 9) + struct.pack("<IQ", 9, 1) * (depth - 1)
    value += struct.pack("<IQB", 0, 1, 7)
    path = tmp_path / "deep.gguf"
    header = b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", len(key)) + key
    path.write_bytes(header + value)
    if is_read:
        assert GgufFile(path).metadata["deep"] == [[[7]]]
    else:
        with pytest.raises(UnsupportedModel, match="'deep' nests arrays deeper"):
            GgufFile(path)
