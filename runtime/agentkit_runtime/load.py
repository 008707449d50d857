"""From a model string to a running engine."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import torch

from agentkit_runtime.attention.sdpa import SdpaAttention
from agentkit_runtime.attention.select import (
    ATTENTION_NAMES,
    AttentionName,
    AttentionShape,
    check_attention,
    open_attention,
)
from agentkit_runtime.capacity.memory import PoolSize, chosen_size, fitting_size, free_host_bytes
from agentkit_runtime.checks import require_instance, require_whole
from agentkit_runtime.core import EngineCore
from agentkit_runtime.engine import Engine
from agentkit_runtime.errors import RuntimeFault
from agentkit_runtime.kv.cache import KvCache, PinQuota
from agentkit_runtime.kv.events import EventLog
from agentkit_runtime.kv.format import KvFormat, bytes_per_token
from agentkit_runtime.kv.formats import float_format
from agentkit_runtime.kv.namespace import Identity
from agentkit_runtime.kv.policy import EvictionPolicy, PolicyName, policy
from agentkit_runtime.kv.pool import KvStorage, SlotAllocator
from agentkit_runtime.kv.tiers.base import Tiers
from agentkit_runtime.kv.tiers.open import TierOptions, open_tiers
from agentkit_runtime.kv.tree import RadixTree
from agentkit_runtime.load_text import load_text
from agentkit_runtime.loading import Checkpoint, ModelFiles, locate, open_checkpoint
from agentkit_runtime.loading.lora import AdaptedCheckpoint, load_adapter
from agentkit_runtime.model.config import ModelConfig
from agentkit_runtime.model.decoder import Decoder
from agentkit_runtime.model.linear import WeightFormat, fastest_format
from agentkit_runtime.model.pool_for import pool_for
from agentkit_runtime.model.weights import load_weights
from agentkit_runtime.sched.scheduler import SchedulerOptions
from agentkit_runtime.text.template import ChatTemplate
from agentkit_runtime.text.tokenizer import Tokenizer

DType = Literal["float32", "bfloat16", "float16"]

_DTYPES: dict[DType, torch.dtype] = {
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}

MAX_THREADS = 4_096
"""More threads than any machine has processors; torch would try to start them."""

MAX_SIZE = 1 << 48
"""Larger sizes of anything in memory are typing errors."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOptions:
    """How to run a model. The defaults suit a laptop."""

    device: str | None = None
    """torch device; None takes CUDA when there is one, else the CPU."""
    dtype: DType | None = None
    """None is bfloat16 on CUDA and float32 on the CPU (bfloat16 needs AVX-512 to be fast)."""
    attention: AttentionName = "auto"
    """"sdpa" is torch's own, "flashinfer" that package on CUDA; "auto" takes it where it runs."""
    weights: str | None = None
    """Name of a `WeightFormat`: how projections are stored; None is "float16" on an x86 CPU that
    computes in float32, else "float"."""
    adapter: Path | None = None
    """Folder of a LoRA adapter (PEFT's format) that is merged into the weights."""
    kv_dtype: str | None = None
    """Name of a `KvFormat`, or "fp8"; None stores keys and values as they are computed."""
    max_slots: int | None = None
    """KV slots, in tokens; None takes what free memory allows (`capacity.memory`)."""
    threads: int | None = None
    """CPU threads of torch, for the whole process; None leaves torch's choice."""
    eviction: PolicyName | EvictionPolicy = "hints"
    """Which unlocked prefixes leave first; without hints, "hints" is least recently used first."""
    pin_quota: PinQuota | None = None
    """How many tokens may be pinned; None: a quarter of the pool for each tenant, half for all."""
    kv_events: int | None = None
    """How many KV events are kept for routers that replay them; None reports none."""
    host_cache_bytes: int | None = None
    """Host memory for KV that had to leave the pool; None is 1 GiB with a disk cache, else none."""
    disk_cache: Path | None = None
    """Folder for KV that outlives the process; None keeps none. For one engine at a time."""
    disk_cache_bytes: int | None = None
    """Most bytes of all files in that folder; None is 16 GiB."""
    scheduler: SchedulerOptions = field(default_factory=SchedulerOptions)

    @property
    def tiers(self) -> TierOptions | None:
        """What to keep beside the pool; None is nothing."""
        if self.host_cache_bytes is None and self.disk_cache is None:
            return None
        return TierOptions(
            host_bytes=self.host_cache_bytes or 1 << 30,
            disk_folder=self.disk_cache,
            disk_bytes=self.disk_cache_bytes or 16 << 30,
        )

    def __post_init__(self) -> None:
        if self.dtype is not None and self.dtype not in _DTYPES:
            raise ValueError(f"dtype must be one of {sorted(_DTYPES)}, got {self.dtype!r}")
        if self.weights is not None:
            WeightFormat.parse(self.weights)
        if self.kv_dtype is not None:
            KvFormat.parse(self.kv_dtype)
        policy(self.eviction)
        if self.attention not in ATTENTION_NAMES:
            raise ValueError(f"attention must be one of {ATTENTION_NAMES}, got {self.attention!r}")
        if self.threads is not None:
            require_whole("threads", self.threads, least=1, most=MAX_THREADS)
        for name in ("max_slots", "kv_events", "host_cache_bytes", "disk_cache_bytes"):
            value = getattr(self, name)
            if value is not None:
                require_whole(name, value, least=1, most=MAX_SIZE)
        for name in ("adapter", "disk_cache"):
            if getattr(self, name) is not None:
                require_instance(name, getattr(self, name), Path)
        if self.pin_quota is not None:
            require_instance("pin_quota", self.pin_quota, PinQuota)
        if self.disk_cache_bytes is not None and self.disk_cache is None:
            raise ValueError(
                f"disk_cache_bytes={self.disk_cache_bytes!r} bounds a folder that is not given: "
                "set disk_cache"
            )
        require_instance("scheduler", self.scheduler, SchedulerOptions)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedModel:
    """A model that is ready to serve. `engine` runs until it is closed."""

    label: str
    engine: Engine
    config: ModelConfig
    tokenizer: Tokenizer
    template: ChatTemplate
    identity: Identity
    pool: PoolSize | None = None
    """How large the KV pool is, and why; None where nobody measured."""


def load_engine(spec: str | ModelFiles, options: EngineOptions | None = None) -> LoadedModel:
    """Find (or fetch), load and start a model. Blocks for seconds, or minutes on a first download.

    Args:
        spec: a built-in name, a file or folder, a hub id, or files that `locate` found before.
        options: how to run it.

    Raises:
        ModelNotFound: `spec` names nothing that can be found or fetched.
        UnsupportedModel: the files need something this runtime does not have.
    """
    options = options or EngineOptions()
    device = _device(options.device)  # before anything is fetched or read
    check_attention(options.attention, device)
    files = spec if isinstance(spec, ModelFiles) else locate(spec)
    checkpoint = _open(files, options)
    tokenizer, template = load_text(files.tokenizer)
    core, dtype, pool = _core_of(checkpoint, options)
    _log.info("%s: %s", files.label, pool)
    return LoadedModel(
        label=files.label,
        engine=Engine(core).start(),
        config=checkpoint.config,
        tokenizer=tokenizer,
        template=template,
        identity=Identity(
            weights=_numbers(checkpoint, weight_format_of(options, device, dtype)),
            dtype=str(dtype),
            kv_dtype=str(kv_format_of(options, dtype)),
            tokenizer=tokenizer.fingerprint,
            template=template.fingerprint,
            adapter=checkpoint.adapter if isinstance(checkpoint, AdaptedCheckpoint) else None,
        ),
        pool=pool,
    )


def load_core(
    spec: str | ModelFiles, options: EngineOptions | None = None
) -> tuple[EngineCore, ModelConfig]:
    """Load a model without its text side and without a thread: for benchmarks. As `load_engine`."""
    files = spec if isinstance(spec, ModelFiles) else locate(spec)
    options = options or EngineOptions()
    checkpoint = _open(files, options)
    return _core_of(checkpoint, options)[0], checkpoint.config


def _open(files: ModelFiles, options: EngineOptions) -> Checkpoint:
    base = open_checkpoint(files)
    if options.adapter is None:
        return base
    return AdaptedCheckpoint(base, load_adapter(options.adapter, base.config))


def _core_of(
    checkpoint: Checkpoint, options: EngineOptions
) -> tuple[EngineCore, torch.dtype, PoolSize]:
    if options.threads is not None:
        torch.set_num_threads(options.threads)
    device = _device(options.device)
    dtype = _DTYPES[options.dtype or ("float32" if device.type == "cpu" else "bfloat16")]
    config = checkpoint.config
    kv_format = kv_format_of(options, dtype)
    form = weight_format_of(options, device, dtype)
    decoder = Decoder(
        config,
        load_weights(checkpoint, device=device, dtype=dtype, form=form),
        SdpaAttention(sliding_window=config.sliding_window),
    )
    pool = pool_size(config, kv_format, device, options.max_slots)
    core = build_core(
        decoder,
        n_slots=pool.slots,
        device=device,
        dtype=dtype,
        kv_format=kv_format,
        options=options.scheduler,
        eviction=options.eviction,
        pin_quota=options.pin_quota,
        kv_events=options.kv_events,
        tiers=_tiers_of(checkpoint, options, form, dtype),
        attention=options.attention,
    )
    return core, dtype, pool


def _tiers_of(
    checkpoint: Checkpoint, options: EngineOptions, form: WeightFormat, dtype: torch.dtype
) -> Callable[[KvStorage], Tiers] | None:
    tiers = options.tiers
    if tiers is None:
        return None
    return lambda storage: open_tiers(
        storage,
        tiers,
        identity=f"{_numbers(checkpoint, form)}/{dtype}",
        weights=checkpoint.config.block_weights,
        compute_dtype=dtype,
    )


def weight_format_of(
    options: EngineOptions, device: torch.device, dtype: torch.dtype
) -> WeightFormat:
    """Return how projections are stored when the model computes in `dtype` on `device`."""
    if options.weights is None:
        return fastest_format(device, dtype)
    return WeightFormat.parse(options.weights)


def _numbers(checkpoint: Checkpoint, form: WeightFormat) -> str:
    """Name the numbers that the decoder computes with: the weights, and how they are stored."""
    if form is WeightFormat.FLOAT:
        return checkpoint.fingerprint
    return f"{checkpoint.fingerprint}/{form}"


def kv_format_of(options: EngineOptions, dtype: torch.dtype) -> KvFormat:
    """Return how keys and values are stored when the model computes in `dtype`."""
    return float_format(dtype) if options.kv_dtype is None else KvFormat.parse(options.kv_dtype)


def build_core(
    decoder: Decoder,
    *,
    n_slots: int,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
    kv_format: KvFormat | None = None,
    options: SchedulerOptions | None = None,
    eviction: PolicyName | EvictionPolicy = "hints",
    pin_quota: PinQuota | None = None,
    kv_events: int | None = None,
    tiers: Callable[[KvStorage], Tiers] | None = None,
    clock: Callable[[], float] = time.monotonic,
    check_every_step: bool = False,
    attention: AttentionName | None = None,
) -> EngineCore:
    """Put a decoder, an empty KV pool of `n_slots` tokens and a scheduler together.

    `kv_format` None stores keys and values as they are computed. `kv_events`: how many events
    `core.cache.events` keeps; None is no log. `tiers` makes slower tiers for the
    pool. `clock` and `check_every_step`: see `EngineCore`. `attention` gives the decoder a backend
    that is measured on this pool; None leaves it the one that it has.
    """
    config = decoder.config
    kv_format = kv_format or float_format(dtype)
    try:
        storage = pool_for(
            decoder, n_slots=n_slots, kv_format=kv_format, compute_dtype=dtype, device=device
        )
    except RuntimeError as error:
        gigabytes = n_slots * _kv_bytes(config, kv_format) / 1e9
        raise RuntimeFault(
            f"a KV pool of {n_slots} slots needs {gigabytes:,.1f} GB, more than {device} has: "
            "take fewer slots (max_slots, or --slots)"
        ) from error
    if attention is not None:
        shape = AttentionShape(
            n_heads=config.n_heads,
            n_kv_heads=config.n_kv_heads,
            head_dim=config.head_dim,
            sliding_window=config.sliding_window,
            dtype=dtype,
            device=storage.device,
            n_slots=n_slots,
            plain_pool=kv_format is float_format(dtype),
        )
        decoder.attention = open_attention(attention, shape, storage.layer(0))
    cache = KvCache(
        SlotAllocator(n_slots), RadixTree(policy=eviction), clock=clock, pin_quota=pin_quota
    )
    if kv_events is not None:
        cache.record_events(EventLog(kv_format, max_events=kv_events))
    if tiers is not None:
        cache.attach_tiers(tiers(storage))
    return EngineCore(
        decoder=decoder,
        storage=storage,
        cache=cache,
        options=options,
        clock=clock,
        check_every_step=check_every_step,
    )


def pool_size(
    config: ModelConfig, kv_format: KvFormat, device: torch.device, max_slots: int | None
) -> PoolSize:
    """Return how many tokens the pool holds: `max_slots`, or what free memory allows.

    Called when the weights are loaded, so that they are not free any more.
    """
    n_bytes = _kv_bytes(config, kv_format)
    if max_slots is not None:
        return chosen_size(max_slots, bytes_per_token=n_bytes, kv_dtype=kv_format)
    on_host = device.type != "cuda"
    free = free_host_bytes() if on_host else torch.cuda.mem_get_info(device)[0]
    return fitting_size(free, bytes_per_token=n_bytes, kv_dtype=kv_format, on_host=on_host)


def _kv_bytes(config: ModelConfig, kv_format: KvFormat) -> int:
    return bytes_per_token(
        kv_format,
        n_layers=config.n_layers,
        n_kv_heads=config.n_kv_heads,
        head_dim=config.head_dim,
    )


def _device(name: str | None) -> torch.device:
    try:
        device = torch.device(name or ("cuda" if torch.cuda.is_available() else "cpu"))
    except RuntimeError as error:
        raise ValueError(
            f"device must be one that torch knows, such as 'cpu' or 'cuda', got {name!r}"
        ) from error
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device is {name!r}, but torch finds no CUDA here; use 'cpu'")
    return device
