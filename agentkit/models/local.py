"""Local models: our own runtime, in this process. `models/own/encoding.py` says requests."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import AsyncGenerator, Iterable, Iterator
from contextlib import aclosing, contextmanager
from typing import TYPE_CHECKING, Any, cast

from agentkit.errors import ConfigurationError, MissingExtra, ModelError, RequestRefused
from agentkit.events import ModelEvent
from agentkit.models.base import ModelRequest
from agentkit.models.engines import EngineRegistry, Options
from agentkit.models.own.answers import translate
from agentkit.models.own.encoding import encode as encode
from agentkit.models.own.encoding import wire as wire
from agentkit.models.own.hints import warmed_usage
from agentkit.models.own.model import OwnModel
from agentkit.usage import Usage
from agentkit_runtime.errors import RequestRejected, RuntimeFault
from agentkit_runtime.kv.hints import Hint

if TYPE_CHECKING:
    from agentkit_runtime.local import LocalRuntime


class LocalModel(OwnModel):
    """A model that our runtime runs in this process.

    All agents of the process that name the same model share one engine, and so one radix tree. The
    engine is loaded at the first request (a bundled model is fetched at its first use on a machine)
    and closed when the process ends. Usable from several event loops and threads.

    Args:
        spec: `smollm2` (bundled), a path, or `org/name` (hub id).
        registry: where the engines live; the process's own by default.
        options: passed on to the runtime's `LocalRuntime.load`, e.g. `threads=2`.

    Raises:
        ConfigurationError: there is no such option. Their values are checked when it is loaded.
    """

    def __init__(
        self,
        spec: str,
        *,
        registry: EngineRegistry[LocalRuntime] | None = None,
        **options: str | int | float | bool | None,
    ) -> None:
        super().__init__()
        if options:
            _check_options(spec, options)
        self._spec = spec
        self._options = options
        self._registry = registry or engine_registry()

    @property
    def label(self) -> str:
        """The model string."""
        return f"local:{self._spec}"

    @property
    def context_tokens(self) -> int | None:
        """The most tokens of a prompt and its answer; None until the engine is loaded."""
        runtime = self._registry.ready(self._spec)
        return None if runtime is None else runtime.context_tokens

    async def warm(self, request: ModelRequest, *, keep_s: float | None) -> Usage:
        """Compute a front when nothing else waits, and pin it if it is to be kept; see `Warms`."""
        front = self._front(request)
        with self._failures():
            runtime = await self._registry.get(self._spec, self._options)
            pin = keep_s is not None
            warmed = await runtime.prefixes.prewarm(
                front, pin=pin, ttl_s=keep_s, name=request.agent if pin else None
            )
        return warmed_usage(warmed.tokens, warmed.cached_tokens)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Ask the runtime; see `Model.stream`."""
        wanted = self._encoded(request)
        try:
            with self._failures():
                runtime = await self._registry.get(self._spec, self._options)
                async with aclosing(runtime.chat(wanted)) as events:
                    async for event in events:
                        for said in translate(event, self.label, another_may_answer=False):
                            yield said
        finally:
            if not request.reuse.again:
                self.conversation_ended(request)

    @contextmanager
    def _failures(self) -> Iterator[None]:
        """Say the runtime's errors in the framework's words."""
        try:
            yield
        except RequestRejected as error:
            raise RequestRefused(f"{self.label} refused the request: {error}") from error
        except RuntimeFault as error:
            raise ModelError(f"{self.label} failed: {error}") from error

    def _advise(self, hint: Hint, tenant: str) -> None:
        """Hand a hint over, if there is an engine: without one it is worth nothing."""
        del tenant  # the hint has it
        runtime = self._registry.ready(self._spec)
        if runtime is not None:
            runtime.advise(hint)

    def __repr__(self) -> str:
        return f"LocalModel({self._spec!r})"


def engine_registry() -> EngineRegistry[LocalRuntime]:
    """Return the engines of this process.

    This is process-wide state on purpose: an engine is a resource of the machine like a connection
    to it, and only when all agents find the same one do they share its cache.
    """
    return _REGISTRY


def _check_options(spec: str, options: Iterable[str]) -> None:
    load = _runtime().load
    known = [name for name in inspect.signature(load).parameters if name != "spec"]
    for name in options:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {known!r}"
            raise ConfigurationError(f"local:{spec} has no option {name!r}; {hint}")


def _load(spec: str, options: Options) -> LocalRuntime:
    # The runtime checks its own options.
    return _runtime().load(spec, **cast("dict[str, Any]", options))


def _runtime() -> type[LocalRuntime]:
    try:
        from agentkit_runtime.local import LocalRuntime
    except ImportError as error:
        if (error.name or "").startswith("agentkit"):
            raise  # a part of ours is broken, and nothing that the user installs will help
        raise MissingExtra(
            f"a local model needs the runtime, which is not installed ({error}); "
            'in a checkout run: pip install -c requirements.lock ".[runtime]"'
        ) from error
    return LocalRuntime


_REGISTRY: EngineRegistry[LocalRuntime] = EngineRegistry(_load)
