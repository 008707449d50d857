"""GGUF container: metadata, tensor table, and tensors decoded one at a time.

Only what a container holds is read here; what the names mean is `gguf_checkpoint`'s business.
The layout is the GGUF specification (versions 2 and 3, little-endian): header, key/value pairs,
tensor infos, padding to `general.alignment`, tensor data. The `gguf` package supplies the type
constants and the dequantisation; its own reader makes a numpy view per array element and takes
seconds where this one takes tens of milliseconds.
"""

from __future__ import annotations

import hashlib
import math
import mmap
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import gguf
import numpy as np
import torch

from agentkit_runtime.errors import UnsupportedModel

MetadataValue = str | int | float | bool | list["MetadataValue"]
"""What a GGUF metadata value can be. Arrays are lists, possibly nested."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorInfo:
    """Where one tensor lies in the file."""

    name: str
    shape: tuple[int, ...]
    """Row-major, as torch counts: `(out, in)` for a linear layer."""
    type_name: str
    """GGML type, for example `Q4_K`."""
    offset_bytes: int
    """From the start of the file."""
    n_bytes: int


class GgufFile:
    """A read-only, memory-mapped GGUF file.

    Opening reads the header only. Instances can be shared between threads; `close` ends the
    mapping. Raises `UnsupportedModel` for files that are not GGUF, are cut short, are big-endian,
    or have a version or a tensor type that is not known.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._map = _open_map(path)
        header = _HeaderReader(self._map, path)
        try:
            self.version, n_tensors, n_pairs = header.preamble()
            metadata = dict(header.pair() for _ in range(n_pairs))
            raw_infos = [header.tensor_info() for _ in range(n_tensors)]
        except (struct.error, UnicodeDecodeError) as error:
            raise UnsupportedModel(
                f"{str(path)!r}: the GGUF header is cut short or damaged ({error}); "
                "download the file again"
            ) from error
        self.header_bytes = header.position
        alignment = metadata.get("general.alignment", 32)
        if not isinstance(alignment, int) or alignment < 1:
            raise UnsupportedModel(f"{str(path)!r}: general.alignment is {alignment!r}")
        data_start = -(-self.header_bytes // alignment) * alignment
        self.metadata: Mapping[str, MetadataValue] = MappingProxyType(metadata)
        self.tensors: Mapping[str, TensorInfo] = MappingProxyType(
            {raw.name: self._placed(raw, data_start) for raw in raw_infos}
        )

    @property
    def size_bytes(self) -> int:
        """Size of the file."""
        return len(self._map)

    def tensor(self, name: str) -> torch.Tensor:
        """Decode one tensor to a new float32 CPU tensor; `KeyError` if there is no such name."""
        info = self.tensors[name]
        quant_type = gguf.GGMLQuantizationType[info.type_name]
        raw = self.raw(name)
        if quant_type.name == "F64":
            decoded = raw.view(np.float64).astype(np.float32)
        elif len(info.shape) > 1:
            rows = raw.reshape(-1, info.n_bytes // math.prod(info.shape[:-1]))
            decoded = self._dequantize(rows, quant_type, info)
        else:
            decoded = self._dequantize(raw, quant_type, info)
        # F32 comes back as a view of the read-only mapping, which must not escape from here.
        own = np.require(decoded, np.float32, ["C", "W"])
        return torch.from_numpy(own).reshape(info.shape)

    def raw(self, name: str) -> np.ndarray:
        """A tensor's bytes: a view of the mapping, which must not outlive this file."""
        info = self.tensors[name]
        return np.frombuffer(self._map, np.uint8, info.n_bytes, info.offset_bytes)

    def sample_digest(self, *, sample_bytes: int = 1024) -> bytes:
        """SHA-256 over the header, the file size and samples of each tensor.

        The samples are the first, middle and last `sample_bytes` of every tensor. It names the
        weights cheaply (about a megabyte is read) and is not a defence against forged files.
        """
        digest = hashlib.sha256(b"agentkit-gguf-samples-v1")
        digest.update(struct.pack("<QQ", self.size_bytes, self.header_bytes))
        digest.update(self._map[: self.header_bytes])
        for info in self.tensors.values():
            last = max(info.n_bytes - sample_bytes, 0)
            for relative in (0, last // 2, last):
                start = info.offset_bytes + relative
                digest.update(
                    self._map[start : min(start + sample_bytes, info.offset_bytes + info.n_bytes)]
                )
        return digest.digest()

    def close(self) -> None:
        """End the mapping. Tensors that were returned stay valid."""
        self._map.close()

    def _dequantize(
        self, raw: np.ndarray, quant_type: gguf.GGMLQuantizationType, info: TensorInfo
    ) -> np.ndarray:
        try:
            decoded: np.ndarray = gguf.dequantize(raw, quant_type)
        except NotImplementedError as error:
            raise UnsupportedModel(
                f"{str(self.path)!r}: tensor {info.name!r} has type {info.type_name}, "
                "which cannot be decoded; use a file quantised to another type"
            ) from error
        return decoded

    def _placed(self, raw: _RawInfo, data_start: int) -> TensorInfo:
        try:
            quant_type = gguf.GGMLQuantizationType(raw.type_id)
            block, block_bytes = gguf.GGML_QUANT_SIZES[quant_type]
        except (ValueError, KeyError) as error:
            raise UnsupportedModel(
                f"{str(self.path)!r}: tensor {raw.name!r} has the unknown type {raw.type_id}"
            ) from error
        n_elements = math.prod(raw.shape)
        if not raw.shape or raw.shape[-1] % block:
            raise UnsupportedModel(
                f"{str(self.path)!r}: tensor {raw.name!r} of shape {raw.shape} does not divide "
                f"into {quant_type.name} blocks of {block}"
            )
        info = TensorInfo(
            name=raw.name,
            shape=raw.shape,
            type_name=quant_type.name,
            offset_bytes=data_start + raw.offset,
            n_bytes=n_elements // block * block_bytes,
        )
        if info.offset_bytes + info.n_bytes > len(self._map):
            raise UnsupportedModel(
                f"{str(self.path)!r}: tensor {raw.name!r} ends at byte "
                f"{info.offset_bytes + info.n_bytes}, but the file has only {len(self._map)}; "
                "it is cut short, download it again"
            )
        return info


@dataclass(frozen=True, slots=True)
class _RawInfo:
    name: str
    shape: tuple[int, ...]
    type_id: int
    offset: int


def require_gguf(path: Path) -> None:
    """Raise UnsupportedModel for a file that does not begin as GGUF files do."""
    with path.open("rb") as file:
        magic = file.read(4)
    if magic != b"GGUF":
        raise UnsupportedModel(
            f"{str(path)!r} is not a GGUF file (it starts with {magic!r}, not b'GGUF')"
        )


def _open_map(path: Path) -> mmap.mmap:
    require_gguf(path)
    with path.open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


_SCALARS: Mapping[int, struct.Struct] = MappingProxyType(
    {
        0: struct.Struct("<B"),
        1: struct.Struct("<b"),
        2: struct.Struct("<H"),
        3: struct.Struct("<h"),
        4: struct.Struct("<I"),
        5: struct.Struct("<i"),
        6: struct.Struct("<f"),
        7: struct.Struct("<?"),
        10: struct.Struct("<Q"),
        11: struct.Struct("<q"),
        12: struct.Struct("<d"),
    }
)
_STRING, _ARRAY = 8, 9
_U32, _U64 = _SCALARS[4], _SCALARS[10]
_MAX_DIMENSIONS = 4
_MAX_ARRAY_DEPTH = 16


class _HeaderReader:
    """A cursor over the header. `struct.error` means that the bytes ended."""

    def __init__(self, data: mmap.mmap, path: Path) -> None:
        self._data = data
        self._path = path
        self.position = 4

    def preamble(self) -> tuple[int, int, int]:
        version = self._number(_U32)
        if version not in (2, 3):
            swapped = int.from_bytes(version.to_bytes(4, "little"), "big")
            what = f"big-endian (version {swapped})" if swapped in (2, 3) else f"version {version}"
            raise UnsupportedModel(
                f"{str(self._path)!r} is GGUF {what}; only little-endian versions 2 and 3 are read"
            )
        return version, self._number(_U64), self._number(_U64)

    def pair(self) -> tuple[str, MetadataValue]:
        key = self._text()
        return key, self._value(self._number(_U32), key)

    def tensor_info(self) -> _RawInfo:
        name = self._text()
        n_dimensions = self._number(_U32)
        if n_dimensions > _MAX_DIMENSIONS:
            raise struct.error(f"tensor {name!r} claims {n_dimensions} dimensions")
        dimensions = tuple(self._number(_U64) for _ in range(n_dimensions))
        type_id = self._number(_U32)
        return _RawInfo(name, dimensions[::-1], type_id, self._number(_U64))

    def _value(self, type_id: int, key: str, depth: int = 0) -> MetadataValue:
        if type_id == _STRING:
            return self._text()
        if type_id == _ARRAY:
            return self._array(key, depth + 1)
        scalar = _SCALARS.get(type_id)
        if scalar is None:
            raise UnsupportedModel(
                f"{str(self._path)!r}: metadata {key!r} has the unknown value type {type_id}"
            )
        (value,) = scalar.unpack_from(self._data, self.position)
        self.position += scalar.size
        return value  # type: ignore[no-any-return]

    def _array(self, key: str, depth: int) -> list[MetadataValue]:
        if depth > _MAX_ARRAY_DEPTH:
            raise UnsupportedModel(
                f"{str(self._path)!r}: metadata {key!r} nests arrays deeper than "
                f"{_MAX_ARRAY_DEPTH}; the file is damaged, download it again"
            )
        item_type = self._number(_U32)
        n_items = self._number(_U64)
        self._need(n_items)
        if item_type == _STRING:
            return self._text_array(n_items)
        scalar = _SCALARS.get(item_type)
        if scalar is None:
            return [self._value(item_type, key, depth) for _ in range(n_items)]
        end = self.position + n_items * scalar.size
        self._need(n_items * scalar.size)
        values = [value for (value,) in scalar.iter_unpack(self._data[self.position : end])]
        self.position = end
        return values

    def _text_array(self, n_items: int) -> list[MetadataValue]:
        # The hot loop (a vocabulary and its merges are 10^5 strings): locals only.
        data, position, unpack = self._data, self.position, _U64.unpack_from
        texts: list[MetadataValue] = []
        for _ in range(n_items):
            (length,) = unpack(data, position)
            position += 8
            raw = data[position : position + length]
            if len(raw) != length:
                raise struct.error("a string runs past the end of the file")
            texts.append(raw.decode("utf-8"))
            position += length
        self.position = position
        return texts

    def _text(self) -> str:
        length = self._number(_U64)
        self._need(length)
        raw = self._data[self.position : self.position + length]
        self.position += length
        return raw.decode("utf-8")

    def _number(self, kind: struct.Struct) -> int:
        (value,) = kind.unpack_from(self._data, self.position)
        self.position += kind.size
        return int(value)

    def _need(self, n_bytes: int) -> None:
        """Refuse lengths that the file cannot hold, before anything of that size is allocated."""
        if n_bytes > len(self._data) - self.position:
            raise struct.error(f"{n_bytes} bytes announced at {self.position}, fewer are left")
