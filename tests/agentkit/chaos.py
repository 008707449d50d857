"""Many runs at once at a provider that fails in every way, by users who do as they like.

Everything is decided by one seed. Time is virtual, sockets are real: the official SDKs talk over
the loopback interface to a server in the same loop.
"""

from __future__ import annotations

import asyncio
import random
import re
import socket
import threading
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import httpx2
import uvicorn
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI

from agentkit import (
    Agent,
    Answered,
    Approve,
    Context,
    Deny,
    HookContext,
    Hooks,
    Limits,
    MemoryJournal,
    PausedRun,
    Retry,
    RunError,
    RunRecord,
    RunStream,
    Task,
    ToolOutput,
    UserMessage,
    fan_out,
    tool,
)
from agentkit.blocks import ToolCall
from agentkit.caching.simulate import Refused, Served
from agentkit.events import Turn
from agentkit.fake import Ask, Call, Failure, FakeProvider, Reply
from agentkit.models.base import ModelRequest
from agentkit.models.hosted.anthropic import AnthropicAdapter
from agentkit.models.hosted.model import HostedModel
from agentkit.models.hosted.openai_chat import DEEPSEEK, ChatAdapter
from agentkit.models.hosted.openai_responses import ResponsesAdapter
from agentkit.models.wiretap import listening
from agentkit.result import Ok
from agentkit.saved import Answer
from agentkit.testing import Capture, ModelCall, assert_prefix_stable
from tests.agentkit.virtual_loop import LoopTime, VirtualLoop

_MAX_RESUMES = 4
RUN: ContextVar[int] = ContextVar("run")
"""Number of the run that code belongs to."""
CUT_OFF: ContextVar[bool] = ContextVar("cut off")
"""Whether the run will surely be cancelled: then a tool may wait for as long as it likes."""
_MARK = re.compile(rb"run-(\d{4})")
_HANGS_S = 100_000.0
_ALL_ENDED_S = 20_000.0
"""Clients wait ten minutes for a provider, and ask three times."""
_N_OWN_TASKS = 2
"""This test, and the server."""
_MALFORMED = ('{"text": ', "", "[1]", '{"text": 1}', '{"te\\u00', "{}")


class Trouble:
    """What the provider says, and how it fails."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.is_calm = False
        self.did: Counter[str] = Counter()

    def respond(self, ask: Ask) -> Reply | Failure:
        """Answer, or fail."""
        if self.is_calm:
            return Reply(text="1")
        failure = self._failure()
        if failure is not None:
            self.did[f"status {failure.status}"] += 1
            return failure
        pick = self._random
        calls = tuple(self._call(ask) for _ in range(self._n_calls(ask)))
        text = pick.choice(["1", "one", "", "ok é 語"]) if calls else pick.choice(["1", "1", "one"])
        breaks_at = pick.randrange(4_000) if pick.random() < 0.08 else None
        first_byte_s = pick.choice([0.0, 0.2, 2.0, 9.0])
        if pick.random() < 0.01:
            first_byte_s = _HANGS_S
            self.did["hang"] += 1
        seconds = pick.choice([0.0, 0.5, 4.0])
        if pick.random() < 0.01:
            seconds = _HANGS_S
            self.did["crawl"] += 1
        self.did["broken stream"] += breaks_at is not None
        self.did["reply"] += 1
        return Reply(
            text=text,
            calls=calls,
            breaks_at_byte=breaks_at,
            first_byte_s=first_byte_s,
            seconds=seconds,
        )

    def _failure(self) -> Failure | None:
        pick = self._random
        kind = pick.random()
        after_s = pick.choice([0.0, 0.0, 1.5])
        if kind < 0.05:
            wait = pick.choice([None, 0.0, 1.0, 20.0, 4_000.0])
            return Failure(status=429, retry_after_s=wait, after_s=after_s)
        for limit, status in ((0.08, 500), (0.11, 529), (0.13, 503), (0.135, 400)):
            if kind < limit:
                return Failure(status=status, after_s=after_s)
        return None

    def _n_calls(self, ask: Ask) -> int:
        if not ask.tools or ask.tool_choice == "none" or self._random.random() < 0.25:
            return 0
        return self._random.choice([1, 1, 1, 2, 3])

    def _call(self, ask: Ask) -> Call:
        pick = self._random
        mark = _mark_of(str(ask.body).encode())
        name = pick.choice([*sorted(ask.tools), "nobody"])
        self.did[f"call {name}"] += 1
        if pick.random() < 0.1:
            self.did["malformed arguments"] += 1
            return Call(name, pick.choice(_MALFORMED))
        seconds = pick.choice([0.0, 0.3, 3.0, 60.0])
        arguments = {
            "note": '{"text": "noted"}',
            "hold": "{}",
            "wait": f'{{"seconds": {seconds}}}',
            "fail": f'{{"how": "{pick.choice(["retry", "raise", "timeout"])}"}}',
            "pay": f'{{"amount": {pick.randrange(100)}}}',
        }
        return Call(name, arguments.get(name, f'{{"task": "help run-{mark:04}"}}'))


class Observer(Hooks):
    """Counts what each run does, and keeps what models were asked."""

    whole_team = True

    def __init__(self) -> None:
        self.requests: dict[int, list[ModelRequest]] = defaultdict(list)
        self.turns: Counter[int] = Counter()
        self.tool_calls: Counter[int] = Counter()

    def asked(self, request: ModelRequest) -> None:
        """Hear of a request: see `agentkit.models.wiretap`."""
        self.requests[RUN.get()].append(request)

    def sent_body(self, request: ModelRequest, stable: tuple[bytes, ...], body: bytes) -> None:
        """What is sent, the provider has."""

    async def after_model(self, at: HookContext[Any], turn: Turn) -> None:
        self.turns[RUN.get()] += 1

    async def before_tool(self, at: HookContext[Any], call: ToolCall) -> ToolOutput | None:
        self.tool_calls[RUN.get()] += 1
        return None


class _Tools(Agent[None, Any]):
    @tool
    async def note(self, text: str) -> str:
        """Note."""
        return f"noted {text}"

    @tool(timeout_s=20)
    async def wait(self, seconds: float) -> str:
        """Wait."""
        await asyncio.sleep(seconds)
        return "waited"

    @tool
    async def hold(self) -> str:
        """Hold."""
        if CUT_OFF.get():
            await asyncio.sleep(_HANGS_S)
        return "held"

    @tool(timeout_s=5)
    async def fail(self, how: str) -> str:
        """Fail."""
        if how == "retry":
            raise Retry("not so")
        if how == "timeout":
            await asyncio.sleep(_HANGS_S)
        raise RuntimeError("broken")


class Helper(_Tools):
    """You help."""

    max_turns = 3


class Boss(_Tools):
    """You work."""

    rules = "Be brief. " * 300
    subagents = (Helper,)
    max_turns = 5

    @tool(requires_approval=True)
    async def pay(self, amount: int) -> str:
        """Pay."""
        return f"paid {amount}"


class Clerk(Boss):
    """You count."""

    output_type = int


@dataclass(kw_only=True)
class Ended:
    """How one user's run went."""

    number: int
    agent: Agent[Any, Any]
    limits: Limits | None
    how: list[str] = field(default_factory=list)
    """How it ended, each time that it was gone on with."""
    context: Context | None = None
    records: list[RunRecord] = field(default_factory=list)


class Chaos:
    """The provider, the models in front of it, and the users."""

    def __init__(self, seed: int, n_runs: int) -> None:
        self.seed = seed
        self.n_runs = n_runs
        self.trouble = Trouble(seed)
        self.observer = Observer()
        self.journal = MemoryJournal()
        self.time = LoopTime()
        self.fake = FakeProvider(time=self.time, respond=self.trouble.respond)
        self.agents: list[Agent[Any, Any]] = []
        self.http = httpx2.AsyncClient()
        self.models: list[HostedModel[Any]] = []

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Serve, and have clients."""
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        async with AsyncExitStack() as stack:
            url = await stack.enter_async_context(_serving(self.fake))
            await stack.enter_async_context(self.http)
            self.models = _models(url, self.http, self.time)
            self.agents = [
                kind(model=model, hooks=(self.observer,), journal=self.journal)
                for model in self.models
                for kind in (Boss, Clerk)
            ]
            self.trouble.is_calm = True
            for model in self.models:  # SDKs look at the machine in a thread first
                RUN.set(0)
                await Agent(model=model, name="first").run("run-0000")
            self.trouble.is_calm = False
            stack.enter_context(listening(self.observer))
            loop.idle_threads = threading.active_count()
            yield
            loop.idle_threads = None

    @property
    def connections(self) -> str:
        """What the clients' connections are doing, in the words of the HTTP library."""
        transport: Any = self.http._transport
        return repr(transport._pool)

    async def all_runs(self) -> list[Ended]:
        """Let all users at it."""
        users = [asyncio.create_task(self._user(number)) for number in range(1, self.n_runs + 1)]
        return list(await asyncio.gather(*users))

    async def _user(self, number: int) -> Ended:
        pick = random.Random(f"{self.seed}-{number}")
        RUN.set(number)
        agent = pick.choice(self.agents)
        limits = _limits(pick)
        await asyncio.sleep(pick.uniform(0, 30))
        if pick.random() < 0.1:
            return await self._fan_out(number, pick)
        ended = Ended(number=number, agent=agent, limits=limits)
        prompt = f"run-{number:04}"
        stream = agent.stream(prompt, limits=limits)
        for _ in range(_MAX_RESUMES):
            how, paused = await _consumed(stream, pick)
            ended.how.append(how)
            ended.context = stream.context
            if stream.record is not None:
                ended.records = [stream.record]
            if stream.record is None or how == "read" or pick.random() < 0.3:
                break
            if not await self.journal.load(stream.record.run_id):
                break  # it was cut off before its first step was kept
            await asyncio.sleep(pick.choice([0.0, 100.0]))
            pending = () if paused is None else paused.pending
            answers = {each.id: _answer(pick) for each in pending if pick.random() < 0.9}
            known = paused if pick.random() < 0.5 else None
            stream = agent.resume_stream(known or stream.record.run_id, answers, limits=limits)
        return ended

    async def _fan_out(self, number: int, pick: random.Random) -> Ended:
        agent = pick.choice([each for each in self.agents if type(each) is Boss])
        tasks = [Task(agent=Helper, prompt=f"run-{number:04} {n}") for n in range(4)]
        after_s = pick.choice([1.0, 20.0, None])
        CUT_OFF.set(after_s is not None)
        limits = pick.choice([None, Limits(tokens=2_500), Limits(turns=2)])
        ended = Ended(number=number, agent=agent, limits=limits, how=["fan out"])
        with suppress(TimeoutError):
            async with asyncio.timeout(after_s):
                done = await fan_out(agent, tasks, limits=limits)
                ended.records = [
                    each.result if isinstance(each, Ok) else each.record for each in done.outcomes
                ]
        return ended

    async def accepted(self, ended: Ended) -> None:
        """Continue each conversation of a run once; the provider must take it.

        Raises:
            RunError: it was refused.
        """
        RUN.set(0)
        if ended.context is not None:
            await ended.agent.run("Go on.", context=ended.context)
        by_run = {each.run_id: each for each in self.observer.requests[ended.number]}
        for record in _all(ended.records):
            asked = by_run.get(record.run_id)
            if asked is None:
                continue
            context = record.context.append(UserMessage.of("Go on."))
            model = ended.agent.model
            assert isinstance(model, HostedModel)
            request = ModelRequest(
                context=context,
                toolset=asked.toolset,
                agent=asked.agent,
                run_id=asked.run_id,
                request_id="again",
            )
            async for _ in model.stream(request):
                pass

    def problems_of(self, ended: Ended) -> Iterator[str]:
        """Say where a run's prefix moved, or its budget was passed by more than one request."""
        asked = [ModelCall(request=each) for each in self.observer.requests[ended.number]]
        try:
            assert_prefix_stable(asked or Capture())
        except AssertionError as error:
            yield str(error)
        limits, served = ended.limits or Limits(), self._served(ended.number)
        # A run that is cut off and gone on with forgets the request and the calls of that moment.
        n_more = len(ended.how) - 1
        n_turns, n_calls = self.observer.turns[ended.number], self.observer.tool_calls[ended.number]
        if limits.turns is not None and n_turns > limits.turns + n_more:
            yield f"{n_turns} turns, limit {limits.turns}"
        if limits.tool_calls is not None and n_calls > limits.tool_calls + 3 * n_more:
            yield f"{n_calls} tool calls, limit {limits.tool_calls}"
        costs = [float(each.cost.total) for each in served if each.cost is not None]
        tokens = [each.split.total + each.output_tokens for each in served]
        for limit, used in ((limits.usd, costs), (limits.tokens, tokens)):
            # Without one of the requests the limit is kept.
            if limit is not None and sum(sorted(used)[: -1 - n_more]) >= limit:
                yield f"{used} used, limit {limit}"

    def _served(self, number: int) -> list[Served]:
        return [
            record.outcome
            for record in self.fake.records
            if isinstance(record.outcome, Served) and _mark_of(record.body) == number
        ]


@dataclass(kw_only=True)
class Report:
    """What there was, and what should not have been."""

    problems: list[str] = field(default_factory=list)
    did: Counter[str] = field(default_factory=Counter)
    ended: Counter[str] = field(default_factory=Counter)
    n_requests: int = 0


async def chaos_report(seed: int, n_runs: int) -> Report:
    """Let so many users run at once; returns what was wrong then."""
    chaos, report = Chaos(seed, n_runs), Report()
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    n_sockets = loop.n_sockets
    # A task that nobody has a hand on is destroyed; this is how the loop says so.
    loop.set_exception_handler(lambda _, told: report.problems.append(str(told["message"])))
    async with chaos.open():
        async with asyncio.timeout(_ALL_ENDED_S):
            ended = await chaos.all_runs()
        await asyncio.sleep(10)  # connections that idle are closed after five seconds
        if len(tasks := asyncio.all_tasks()) != _N_OWN_TASKS:
            report.problems.append(f"tasks are left: {tasks}")
        if " 0 active" not in (pool := chaos.connections):
            report.problems.append(f"requests are left: {pool}")
        for each in ended:
            where = f"run {each.number} ({', '.join(each.how)})"
            report.problems += [f"{where}: {text}" for text in chaos.problems_of(each)]
        chaos.trouble.is_calm = True
        for each in ended:
            try:
                await chaos.accepted(each)
            except RunError as error:
                report.problems.append(f"run {each.number} cannot be continued: {error}")
        report.problems += [
            f"a request was refused: {record.error or record.outcome}"
            for record in chaos.fake.records
            if record.error is not None or isinstance(record.outcome, Refused)
        ]
    if loop.n_sockets != n_sockets:
        report.problems.append(f"{loop.n_sockets - n_sockets} sockets are left")
    report.did = chaos.trouble.did
    report.ended = Counter(how for each in ended for how in each.how)
    report.n_requests = len(chaos.fake.records)
    return report


def _all(records: list[RunRecord]) -> list[RunRecord]:
    found = list(records)
    for record in records:
        below = [each.result if isinstance(each, Ok) else each.record for each in record.children]
        found += _all(list(below))
    return found


async def _consumed(stream: RunStream[Any], pick: random.Random) -> tuple[str, PausedRun | None]:
    """Read a stream as users do; returns how it ended, and what waits for answers."""
    how = pick.choice(["read", "read", "read", "cancel", "timeout", "leave", "pause"])
    after_s, n_events = pick.choice([0.0, 0.5, 5.0, 50.0]), pick.randrange(40)
    CUT_OFF.set(how in ("cancel", "timeout"))
    task = asyncio.create_task(_read(stream, n_events if how in ("leave", "pause") else None, how))
    try:
        if how == "timeout":
            async with asyncio.timeout(after_s):
                await task
        elif how == "cancel":
            await asyncio.sleep(after_s)
            task.cancel()
            await task
        else:
            await task
    except (asyncio.CancelledError, TimeoutError):
        pass
    except RunError as error:
        how = f"{how}: {type(error).__name__}"
    await stream.aclose()
    return how, stream.paused


async def _read(stream: RunStream[Any], n_events: int | None, how: str) -> None:
    async with stream as events:
        n_seen = 0
        async for _ in events:
            n_seen += 1
            if n_seen == n_events and how == "leave":
                return
            if n_seen == n_events and how == "pause":
                events.pause()


def _answer(pick: random.Random) -> Answer:
    changed = Approve(pick.choice(['{"amount": 1}', '{"amount": "x"}']))
    answers: list[Answer] = [Approve(), changed, Deny("no"), Answered("paid already")]
    return pick.choice(answers)


def _limits(pick: random.Random) -> Limits | None:
    kind = pick.choice(["none", "none", "turns", "tools", "usd", "tokens"])
    match kind:
        case "turns":
            return Limits(turns=pick.randrange(1, 9))
        case "tools":
            return Limits(tool_calls=pick.randrange(1, 9))
        case "usd":
            return Limits(usd=pick.choice([0.001, 0.003, 0.01]))
        case "tokens":
            return Limits(tokens=pick.choice([500, 2_000, 5_000]))
        case _:
            return None


def _models(url: str, http: httpx2.AsyncClient, time: LoopTime) -> list[HostedModel[Any]]:
    claude = AsyncAnthropic(api_key="k", base_url=url, http_client=http)
    openai = AsyncOpenAI(api_key="k", base_url=f"{url}/v1", http_client=http)
    deepseek = AsyncOpenAI(api_key="k", base_url=f"{url}/deepseek", http_client=http)
    return [
        HostedModel(AnthropicAdapter("claude-sonnet-5-5", client=claude), time=time),
        HostedModel(ResponsesAdapter("gpt-6.1-sol", client=openai), time=time),
        HostedModel(ChatAdapter("deepseek-flash", profile=DEEPSEEK, client=deepseek), time=time),
    ]


@asynccontextmanager
async def _serving(fake: FakeProvider) -> AsyncIterator[str]:
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as listener:
        config = uvicorn.Config(
            fake.app, log_config=None, access_log=False, lifespan="off", timeout_graceful_shutdown=1
        )
        server = _Server(config)
        task = asyncio.create_task(server.serve(sockets=[listener]))
        while not server.started:  # noqa: ASYNC110 - it has no event for that
            await asyncio.sleep(0)
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            await task


class _Server(uvicorn.Server):
    def capture_signals(self) -> Any:
        """Take no signals: they are the test runner's."""
        return nullcontext()


def _mark_of(data: bytes) -> int:
    found = _MARK.search(data)
    return 0 if found is None else int(found[1])
