"""A Hugging Face folder (config.json and .safetensors files) as a `Checkpoint`."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import torch
from safetensors import SafetensorError, safe_open

from agentkit_runtime.errors import UnsupportedModel
from agentkit_runtime.loading.hf_config import config_from_hf
from agentkit_runtime.loading.layout import LM_HEAD, check_tensors
from agentkit_runtime.model.blocks import Blocks

DTYPES = frozenset({"F32", "F16", "BF16"})
"""Storage types of weights that are read."""

_SAMPLE_BYTES = 1024
_MAX_HEADER_BYTES = 100_000_000
"""The limit of the safetensors format."""


class SafetensorsCheckpoint:
    """The decoder in a model folder. See `Checkpoint` for the contract."""

    def __init__(self, files: Sequence[Path]) -> None:
        folder = files[0].parent
        label = repr(str(folder))
        values = _read_config(folder / "config.json")
        headers = [_read_header(path) for path in _listed(folder, files)]
        entries = _merged(headers)
        self.config = config_from_hf(label, values, entries.keys())
        self._entries = {
            name: entry for name, entry in entries.items() if not _is_derived(name, self)
        }
        check_tensors(
            label, self.config, {name: entry.shape for name, entry in self._entries.items()}
        )
        _check_dtypes(label, self._entries)
        self.fingerprint = _fingerprint(values, headers)

    def has(self, name: str) -> bool:
        """Whether `tensor(name)` exists."""
        return name in self._entries

    def tensor(self, name: str) -> torch.Tensor:
        """Read one tensor by its canonical name to a new float32 CPU tensor."""
        path = self._entries[name].path
        with safe_open(path, framework="pt") as file:
            stored: torch.Tensor = file.get_tensor(name)
        return stored.to(torch.float32, copy=True)

    def blocks(self, name: str) -> Blocks | None:
        """None: weights that are stored as integers are refused when the folder is opened."""
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    path: Path
    shape: tuple[int, ...]
    dtype: str
    start: int
    """Byte offset in the file."""
    end: int


@dataclass(frozen=True, slots=True)
class _Header:
    path: Path
    raw: bytes
    entries: Mapping[str, _Entry]


def _read_config(path: Path) -> Mapping[str, object]:
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise UnsupportedModel(f"{str(path.parent)!r} has no config.json") from error
    except ValueError as error:
        raise UnsupportedModel(f"{str(path)!r} is not JSON: {error}") from error
    if not isinstance(values, dict):
        raise UnsupportedModel(f"{str(path)!r} does not hold a JSON object")
    return MappingProxyType(values)


def _listed(folder: Path, files: Sequence[Path]) -> list[Path]:
    """The files that the index names, if there is one: other files are not part of the model."""
    index = folder / "model.safetensors.index.json"
    if not index.is_file():
        return list(files)
    weight_map = _read_config(index).get("weight_map")
    if not isinstance(weight_map, dict):
        raise UnsupportedModel(f"{str(index)!r} has no weight_map")
    names = sorted(set(map(str, weight_map.values())))
    missing = [name for name in names if not (folder / name).is_file()]
    if missing:
        raise UnsupportedModel(
            f"{str(folder)!r} lacks {missing[0]!r}, one of {len(names)} weight files that the "
            "index names; download it again"
        )
    return [folder / name for name in names]


def _read_header(path: Path) -> _Header:
    """The layout of one file: 8 bytes of length, JSON, data."""
    try:
        # The library checks the offsets against the file's size.
        with safe_open(path, framework="pt"):
            pass
    except (SafetensorError, OSError) as error:
        raise UnsupportedModel(
            f"{str(path)!r} is not a whole safetensors file: {error}; download it again"
        ) from error
    with path.open("rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        raw = file.read(min(length, _MAX_HEADER_BYTES))
    described = json.loads(raw)
    described.pop("__metadata__", None)
    data_start = 8 + length
    entries = {
        name: _Entry(
            path=path,
            shape=tuple(tensor["shape"]),
            dtype=tensor["dtype"],
            start=data_start + tensor["data_offsets"][0],
            end=data_start + tensor["data_offsets"][1],
        )
        for name, tensor in described.items()
    }
    return _Header(path, raw, entries)


def _merged(headers: Sequence[_Header]) -> dict[str, _Entry]:
    merged: dict[str, _Entry] = {}
    for header in headers:
        for name, entry in header.entries.items():
            if name in merged:
                raise UnsupportedModel(
                    f"tensor {name!r} is in {str(merged[name].path)!r} and in {str(entry.path)!r}; "
                    "remove one of the files"
                )
            merged[name] = entry
    return merged


def _is_derived(name: str, checkpoint: SafetensorsCheckpoint) -> bool:
    """Tensors that some exporters store, but that follow from the others."""
    if name == LM_HEAD:
        return checkpoint.config.tied_embeddings
    return name.endswith("rotary_emb.inv_freq")


def _check_dtypes(label: str, entries: Mapping[str, _Entry]) -> None:
    for name, entry in entries.items():
        if entry.dtype not in DTYPES:
            raise UnsupportedModel(
                f"{label}: tensor {name!r} is stored as {entry.dtype}; "
                f"known are {', '.join(sorted(DTYPES))}"
            )


def _fingerprint(config: Mapping[str, object], headers: Sequence[_Header]) -> str:
    """Hex SHA-256 over the configuration, the files' headers and sizes, and samples of tensors.

    The samples are the first, middle and last `_SAMPLE_BYTES` of every tensor.
    """
    digest = hashlib.sha256(b"agentkit-safetensors-samples-v1")
    digest.update(json.dumps(dict(config), sort_keys=True).encode())
    for header in sorted(headers, key=lambda header: header.path.name):
        digest.update(struct.pack("<QQ", header.path.stat().st_size, len(header.raw)))
        digest.update(header.raw)
        with header.path.open("rb") as file:
            for entry in header.entries.values():
                last = max(entry.end - entry.start - _SAMPLE_BYTES, 0)
                for offset in (0, last // 2, last):
                    start = entry.start + offset
                    file.seek(start)
                    digest.update(file.read(min(_SAMPLE_BYTES, entry.end - start)))
    return digest.hexdigest()
