"""The runtime inside the caller's own process: no server, no socket."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import TYPE_CHECKING, Self

from agentkit_runtime.chat import ChatEvent, ChatRequest
from agentkit_runtime.service import ChatService

if TYPE_CHECKING:
    from agentkit_runtime.attention.select import AttentionName
    from agentkit_runtime.capacity.memory import PoolSize
    from agentkit_runtime.core import CoreStats
    from agentkit_runtime.kv.hints import Hint
    from agentkit_runtime.kv.pins import PinQuota
    from agentkit_runtime.kv.policy import EvictionPolicy, PolicyName
    from agentkit_runtime.load import DType, LoadedModel
    from agentkit_runtime.prefixes import Prefixes
    from agentkit_runtime.sched.options import SchedulerOptions
    from agentkit_runtime.turn_losses import TemplateReport


class LocalRuntime:
    """One loaded model and its engine thread. Close it, or use it as a context manager.

    All callers of one `LocalRuntime` share one radix tree. It can be used from several event loops
    and threads at the same time; each reply belongs to the loop that asked for it.
    """

    def __init__(self, loaded: LoadedModel, *, namespace_key: bytes | None = None) -> None:
        """Take over `loaded`: closing this closes its engine. See `load` for the usual way."""
        self.service = ChatService(loaded, namespace_key=namespace_key)
        """What HTTP front ends are built on."""
        self._key_file: Path | None = None
        """Where the key is kept, if it is."""

    @classmethod
    def load(
        cls,
        spec: str,
        *,
        max_slots: int | None = None,
        threads: int | None = None,
        device: str | None = None,
        dtype: DType | None = None,
        weights: str | None = None,
        adapter: str | Path | None = None,
        kv_dtype: str | None = None,
        attention: AttentionName = "auto",
        eviction: PolicyName | EvictionPolicy = "hints",
        pin_quota: PinQuota | None = None,
        host_cache_bytes: int | None = None,
        disk_cache: str | Path | None = None,
        disk_cache_bytes: int | None = None,
        kv_events: int | None = None,
        scheduler: SchedulerOptions | None = None,
        namespace_key: bytes | Path | None = None,
    ) -> Self:
        """Find (or fetch), load and start a model. Blocks for seconds; a first fetch for minutes.

        Args:
            spec: a built-in name ("smollm2"), a .gguf file, a model folder, or a hub id.
            max_slots: KV slots in tokens; None takes a share of the machine's memory.
            threads: CPU threads of torch, for the whole process; None leaves torch's choice.
            device: torch device; None takes CUDA when there is one, else the CPU.
            dtype: compute dtype; None is float32 on the CPU and bfloat16 on CUDA.
            weights: how projections are stored: float, float16 (with float32 arithmetic), int8 or
                int4 (for memory, not for speed); None is float16 on an x86 CPU, else float.
            adapter: folder of a LoRA adapter (PEFT's format) that is merged into the weights.
            kv_dtype: how keys and values are stored: float32, bfloat16, float16, fp8 (fp8_e4m3),
                fp8_e5m2, int8 or int4; None stores them as they are computed.
            attention: "sdpa" is torch's own, "flashinfer" that package on CUDA; "auto" takes it
                where it runs.
            eviction: which cached prefixes leave first: "lru", "lfu", "slru", "hints" (lru that
                heeds `advise`), or an `EvictionPolicy` of your own.
            pin_quota: how many tokens may be pinned; None is a quarter of the pool for each tenant,
                and half of it for all.
            host_cache_bytes: host memory for KV that had to leave the pool; None is none, or 1 GiB
                in front of a disk cache.
            disk_cache: folder for KV that outlives the process; None keeps none.
            disk_cache_bytes: most bytes of all files in that folder; None is 16 GiB.
            kv_events: how many KV events are kept for routers that replay them; None reports none.
            scheduler: bounds of a step, order and fairness (`sched.options`); None is its defaults.
            namespace_key: secret that separates tenants, or the file in which it is kept (made when
                it is not there); None draws one, or with a disk cache takes the one that is kept
                there: under another key nothing in it is found again.

        Raises:
            ModelNotFound: `spec` names nothing that can be found or fetched.
            UnsupportedModel: the files need something this runtime does not have.
            ValueError: an option is out of range, or a key that is kept is damaged.
            OSError: a folder or a key can neither be read nor be made.
        """
        from agentkit_runtime.kv.tiers.keys import (
            key_file,
            load_or_create_key,
            load_or_create_key_file,
        )
        from agentkit_runtime.load import EngineOptions, load_engine
        from agentkit_runtime.sched.options import SchedulerOptions

        folder = None if disk_cache is None else Path(disk_cache).expanduser()
        options = EngineOptions(
            max_slots=max_slots,
            threads=threads,
            device=device,
            dtype=dtype,
            weights=weights,
            adapter=None if adapter is None else Path(adapter).expanduser(),
            kv_dtype=kv_dtype,
            attention=attention,
            eviction=eviction,
            pin_quota=pin_quota,
            host_cache_bytes=host_cache_bytes,
            disk_cache=folder,
            disk_cache_bytes=disk_cache_bytes,
            kv_events=kv_events,
            scheduler=scheduler or SchedulerOptions(),
        )
        kept: Path | None = None
        if isinstance(namespace_key, Path):
            kept = namespace_key.expanduser()
            namespace_key = load_or_create_key_file(kept)
        elif namespace_key is None and folder is not None:
            kept = key_file(folder)
            namespace_key = load_or_create_key(folder)
        runtime = cls(load_engine(spec, options), namespace_key=namespace_key)
        runtime._key_file = kept
        return runtime

    @property
    def model_label(self) -> str:
        """The model's name."""
        return self.service.model_label

    @property
    def pool(self) -> PoolSize | None:
        """How large the KV pool is, and why."""
        return self.service.pool

    @property
    def context_tokens(self) -> int:
        """The most tokens of a prompt and its answer together."""
        return self.service.context_tokens

    def template_report(self) -> TemplateReport:
        """What the chat template says otherwise later, and what that has cost so far."""
        return self.service.template_report()

    @property
    def prefixes(self) -> Prefixes:
        """Pre-warming, pins, pruning, hints."""
        return self.service.prefixes

    def chat(self, request: ChatRequest) -> AsyncGenerator[ChatEvent, None]:
        """Generate a reply; see `ChatService.stream`. `aclose()` gives everything back."""
        return self.service.stream(request)

    def advise(self, hint: Hint) -> None:
        """Tell the cache what is expected, without waiting for it. From any thread."""
        self.service.prefixes.advise(hint)

    def rotate_namespace_key(self, key: bytes) -> None:
        """Separate tenants by another secret from now on, also after a restart.

        All caches start cold; what lies on disk under the old key is never found again.

        Raises:
            ValueError: the key is too short; one that is kept has exactly 32 bytes.
            OSError: it cannot be kept; then nothing has changed.
        """
        from agentkit_runtime.kv.tiers.keys import replace_key

        if self._key_file is not None:
            replace_key(self._key_file, key)
        self.service.rotate_namespace_key(key)

    def stats(self) -> CoreStats:
        """The engine's numbers after its last step."""
        return self.service.stats()

    def close(self) -> None:
        """Stop the engine; replies that are still running end with an error. Idempotent."""
        self.service.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
