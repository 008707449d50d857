"""A server of ours for agents: real HTTP, the real engine; only what the model says is scripted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from agentkit_runtime.api import create_app
from agentkit_runtime.api.admin import own_routes
from agentkit_runtime.api.asked import Asked, Gate, Watch
from agentkit_runtime.api.caller import Authenticator
from agentkit_runtime.chat import ChatEvent, ChatRequest
from agentkit_runtime.kv.hints import Hint
from agentkit_runtime.kv.pool import KvStorage
from agentkit_runtime.kv.tiers.base import Tiers
from agentkit_runtime.kv.tiers.disk_file import BlockShape
from agentkit_runtime.kv.tiers.disk_open import open_disk
from agentkit_runtime.kv.tiers.tiered import HostAndDiskTiers
from agentkit_runtime.service import ChatService
from agentkit_runtime.text.template import ChatTemplate
from agentkit_runtime.text.tokenizer import Tokenizer
from tests.runtime.api.serving import Served, serving_app
from tests.runtime.service.scripted import Pace, Script, scripted_model
from tests.runtime.tiers.support import Always

Text = tuple[Tokenizer, ChatTemplate]
NAMESPACE_KEY = b"n" * 32


class Seen:
    """Keeps the requests that came, in their order."""

    def __init__(self) -> None:
        self.asked_: list[ChatRequest] = []

    def asked(self, asked: Asked) -> Watch:
        self.asked_.append(asked.chat)
        return _Nothing()


class _Nothing:
    def event(self, index: int, event: ChatEvent) -> None: ...

    def closed(self, failure: BaseException | None) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Own:
    """A running server."""

    served: Served
    seen: Seen
    hints: list[Hint]
    abort_all: Callable[[], int]
    """What a server does with its answers when it has to stop."""

    @property
    def url(self) -> str:
        return self.served.url

    @property
    def asked(self) -> Sequence[ChatRequest]:
        """The requests that came."""
        return self.seen.asked_

    def ids(self, request: ChatRequest) -> tuple[int, ...]:
        """The prompt of a request, as the engine gets it now."""
        return self.served.service.prepare(request).generate.prompt


@contextmanager
def own_server(
    text: Text,
    answers: dict[str, str],
    *,
    authenticator: Authenticator | None = None,
    gate: Gate | None = None,
    disk: Path | None = None,
) -> Iterator[Own]:
    """A server, as after a start; what it says is spelled letter by letter."""
    pace, seen, hints = Pace(Script(text[0], answers, by_character=True)), Seen(), list[Hint]()
    tiers = None if disk is None else tiers_in(disk)
    with ExitStack() as running:
        loaded = running.enter_context(scripted_model(*text, pace, tiers=tiers))
        service = ChatService(loaded, namespace_key=NAMESPACE_KEY)
        take = service.prefixes.hint

        async def hint(given: Hint) -> None:
            hints.append(given)
            await take(given)

        service.prefixes.hint = hint  # type: ignore[method-assign]
        app = create_app(
            service,
            authenticator=authenticator,
            gate=gate,
            watchers=(seen,),
            more=(own_routes,),
            model_ids=("small", "gpt-6-sol"),
        )
        url, server = running.enter_context(serving_app(app))
        served = Served(url=url, server=server, service=service, pace=pace)
        abort_all = app.state.site.answering.abort_all
        yield Own(served=served, seen=seen, hints=hints, abort_all=abort_all)


def tiers_in(folder: Path) -> Callable[[KvStorage], Tiers]:
    """Tiers that keep everything, in a folder that outlives them."""

    def make(storage: KvStorage) -> Tiers:
        shape = BlockShape(
            identity=b"i" * 32,
            kv_format=str(storage.format),
            bytes_per_token=storage.bytes_per_token,
        )
        disk = open_disk(folder, shape, max_bytes=1 << 30)
        return HostAndDiskTiers(storage, host_bytes=1000 * shape.n_bytes, worth=Always(), disk=disk)

    return make
