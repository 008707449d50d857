"""Holds the conversations of a workload with one server."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import httpx2

from agentkit_runtime.admin_client import ServerFault, server_url, unreachable
from agentkit_runtime.benching.asking import Answered, AskFailed, Message, ask
from agentkit_runtime.benching.report import ServerReport, report
from agentkit_runtime.benching.workload import Workload

CONNECT_S = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A server."""

    url: str
    key: str | None = field(default=None, repr=False)
    model: str | None = None
    """None: the first one that it lists."""
    verify: ssl.SSLContext | bool = True
    timeout_s: float = 600.0


Progress = Callable[[], None]
"""Called after each request."""


async def run(target: Target, load: Workload, *, progress: Progress) -> ServerReport:
    """Hold all conversations, `load.concurrency` at a time.

    A conversation whose request fails ends there; the failure is counted.

    Raises:
        ServerFault: there is no such server, or it does not let the key in.
    """
    url = server_url(target.url)
    limits = httpx2.Limits(max_connections=load.concurrency + 1)
    async with httpx2.AsyncClient(
        base_url=url,
        headers={} if target.key is None else {"Authorization": f"Bearer {target.key}"},
        timeout=httpx2.Timeout(target.timeout_s, connect=CONNECT_S),
        limits=limits,
        verify=target.verify,
    ) as client:
        model = await _model(client, url, target.model)
        held = _Held(client, model, load, progress)
        began_s = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            for _ in range(min(load.concurrency, load.conversations)):
                group.create_task(held.one_after_the_other())
        seconds = time.perf_counter() - began_s
    return report(url, model, held.answers, held.failures, seconds)


async def _model(client: httpx2.AsyncClient, url: str, wanted: str | None) -> str:
    try:
        answer = await client.get("/v1/models")
        answer.raise_for_status()
        names = [str(model["id"]) for model in answer.json()["data"]]
    except httpx2.HTTPStatusError as error:
        status = error.response.status_code
        what = (
            "wants a key, or another one (see --key-file)"
            if status == 401
            else f"answered {status}"
        )
        raise ServerFault(f"{url} {what}") from error
    except httpx2.HTTPError as error:
        raise unreachable(url, error) from error
    except (ValueError, LookupError, TypeError) as error:
        raise ServerFault(f"what is at {url} lists no models as OpenAI's API does") from error
    if wanted is not None:
        return wanted
    if not names:
        raise ServerFault(f"{url} has no model; name one with --model")
    return names[0]


class _Held:
    """Conversations that are held, and what came of them."""

    def __init__(
        self, client: httpx2.AsyncClient, model: str, load: Workload, progress: Progress
    ) -> None:
        self._client = client
        self._model = model
        self._load = load
        self._progress = progress
        self._next = iter(range(load.conversations))
        self.answers: list[Answered] = []
        self.failures: Counter[str] = Counter()

    async def one_after_the_other(self) -> None:
        """Hold conversations until none is left."""
        for conversation in self._next:
            await self._hold(conversation)

    async def _hold(self, conversation: int) -> None:
        load = self._load
        messages: list[Message] = [{"role": "system", "content": load.system(conversation)}]
        for turn in range(load.turns):
            messages.append({"role": "user", "content": load.question(conversation, turn)})
            try:
                answer = await ask(
                    self._client,
                    messages,
                    model=self._model,
                    max_tokens=load.max_tokens,
                    session=load.session(conversation),
                )
            except AskFailed as failure:
                self.failures[str(failure)] += 1
                return
            finally:
                self._progress()
            self.answers.append(answer)
            messages.append({"role": "assistant", "content": answer.text})
