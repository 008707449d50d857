"""What agents pay for their input, against the least that anybody could: `make bench`.

Real agents with default settings, through the real adapters and the official SDKs, talk to the fake
provider in virtual time. The ideal is a lower bound: each block of each prompt is read, written or
sent plain as it is cheapest with all of the future known (`agentkit.caching.simulate.oracle`).

    python tests/bench/plan_cost.py [--sessions agent_sessions.jsonl.xz] [--only ROW]
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx2
import scenarios
from results import Result, write_benchmarks
from rich.console import Console
from rich.table import Table
from scenarios import Scenario, Work
from sessions import read_sessions, replay

from agentkit.caching.policy import Policy, Provider, Switches, policy_for
from agentkit.caching.request import Block, CacheRequest
from agentkit.caching.simulate import InFlight, Refused, Served
from agentkit.caching.simulate.cache import SimulatedCache
from agentkit.caching.simulate.oracle import Use, least_cost
from agentkit.caching.times import VirtualTime
from agentkit.fake import FakeProvider
from agentkit.models.hosted.model import HostedModel


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A provider's model, and how long its shortest lifetime is."""

    provider: Provider
    model: str
    life_s: float
    connect: Callable[[httpx2.AsyncClient, VirtualTime, str], Any]
    sees: bool = True
    """Whether the model takes images."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A scenario, and how near to the ideal it must come at Anthropic and OpenAI."""

    name: str
    scenario: Callable[[Target], Scenario]
    bound: Decimal | None = None
    """For Anthropic and OpenAI."""
    images: bool = False
    switches: Switches = field(default_factory=Switches)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a scenario cost at a provider, input only, in USD."""

    row: Row
    target: Target
    requests: int
    pings: int
    paid: Decimal
    ideal: Decimal
    uncached: Decimal

    @property
    def bound(self) -> Decimal | None:
        """The ratio that must not be exceeded."""
        is_bound = self.target.provider in (Provider.ANTHROPIC, Provider.OPENAI)
        return self.row.bound if is_bound else None

    @property
    def holds(self) -> bool:
        """Whether it is not."""
        return self.bound is None or self.ratio <= self.bound

    @property
    def ratio(self) -> Decimal:
        """Paid by ideal; 1 is perfect."""
        return self.paid / self.ideal


def anthropic(http: httpx2.AsyncClient, time: VirtualTime, model: str) -> Any:
    from anthropic import AsyncAnthropic

    from agentkit.models.hosted.anthropic import AnthropicAdapter

    client = AsyncAnthropic(api_key="bench", base_url="http://fake", http_client=http)
    return AnthropicAdapter(model, client=client)


def responses(http: httpx2.AsyncClient, time: VirtualTime, model: str) -> Any:
    from openai import AsyncOpenAI

    from agentkit.models.hosted.openai_responses import ResponsesAdapter

    client = AsyncOpenAI(api_key="bench", base_url="http://fake/v1", http_client=http)
    return ResponsesAdapter(model, client=client)


def deepseek(http: httpx2.AsyncClient, time: VirtualTime, model: str) -> Any:
    from openai import AsyncOpenAI

    from agentkit.models.hosted.openai_chat import ChatAdapter
    from agentkit.models.hosted.openai_chat.profiles import DEEPSEEK

    client = AsyncOpenAI(api_key="bench", base_url="http://fake/deepseek", http_client=http)
    return ChatAdapter(model, profile=DEEPSEEK, client=client)


def gemini(http: httpx2.AsyncClient, time: VirtualTime, model: str) -> Any:
    from google.genai import Client
    from google.genai.types import HttpOptions

    from agentkit.models.hosted.gemini import GeminiAdapter

    options = HttpOptions(base_url="http://fake", httpx_async_client=http)
    client = Client(vertexai=False, api_key="bench", http_options=options)
    return GeminiAdapter(model, client=client, time=time)


TARGETS = (
    Target(provider=Provider.ANTHROPIC, model="claude-sonnet-5-5", life_s=300, connect=anthropic),
    Target(provider=Provider.OPENAI, model="gpt-6.1-sol", life_s=1_800, connect=responses),
    Target(
        provider=Provider.DEEPSEEK,
        model="deepseek-flash",
        life_s=86_400,
        connect=deepseek,
        sees=False,
    ),
    Target(provider=Provider.GEMINI, model="gemini-3.8-flash", life_s=3_600, connect=gemini),
)


def _plain(scenario: Scenario) -> Callable[[Target], Scenario]:
    return lambda target: scenario


def _long_tools(target: Target) -> Scenario:
    return functools.partial(scenarios.long_tools, life_s=min(target.life_s, 3_600))


ROWS = (
    Row(name="one agent", scenario=_plain(scenarios.one_agent), bound=Decimal("1.01")),
    Row(name="fan-out", scenario=_plain(scenarios.fan_out), bound=Decimal("1.01")),
    Row(name="shuffled listings", scenario=_plain(scenarios.shuffled), bound=Decimal("1.01")),
    Row(name="sequential sessions", scenario=_plain(scenarios.sequential), bound=Decimal("1.01")),
    Row(
        name="sessions far apart",
        scenario=lambda target: functools.partial(
            scenarios.sequential, gap_s=2 * min(target.life_s, 3_600)
        ),
    ),
    Row(
        name="wide turn",
        scenario=_plain(scenarios.wide_turn),
        bound=Decimal("1.03"),
        switches=scenarios.EACH_BLOCK_A_POSITION,
    ),
    Row(name="long tools", scenario=_long_tools, bound=Decimal("1.35")),
    Row(
        name="thinking and images",
        scenario=_plain(scenarios.thinking_and_images),
        images=True,
    ),
    # Without a bound: the requests for summaries and the new epochs are in the ideal too.
    Row(name="compaction", scenario=_plain(scenarios.compaction)),
)


def measure(row: Row, target: Target) -> Outcome:
    """Run a scenario in virtual time, and price what the fake provider has served."""
    time = VirtualTime()
    work = Work(time=time)
    fake = FakeProvider(time=time, respond=work.respond, switches=row.switches)
    uses = _watched(fake.caches.of(target.provider), time)

    async def run() -> None:
        async with httpx2.AsyncClient(transport=fake.transport(), timeout=None) as http:
            adapter = target.connect(http, time, target.model)
            model = HostedModel(adapter, time=time)
            await time.drive(row.scenario(target)(model, time, work))

    asyncio.run(run())
    policy = policy_for(target.provider, target.model, time.now().date(), switches=row.switches)
    return _priced(row, target, fake, uses, policy)


def _watched(cache: SimulatedCache, time: VirtualTime) -> list[Use]:
    """Keep every request that reaches the cache."""
    uses: list[Use] = []
    begin = cache.begin

    def watched(request: CacheRequest) -> InFlight | Refused:
        uses.append(Use(at=time.now(), request=request))
        return begin(request)

    cache.begin = watched  # type: ignore[method-assign]
    return uses


def _priced(
    row: Row, target: Target, fake: FakeProvider, uses: list[Use], policy: Policy
) -> Outcome:
    served = [each for each in fake.served if isinstance(each, Served)]
    if len(served) != len(fake.records):
        problems = {str(each.outcome or each.error) for each in fake.records}
        raise RuntimeError(f"the fake provider refused requests: {problems}")
    paid = Decimal(0)
    for each in served:
        assert each.cost is not None, "the models of the benchmark have prices"
        paid += each.cost.total - each.cost.output
    real = [use for use in uses if not use.request.prewarm]
    assert policy.prices is not None
    uncached = (
        sum(
            (
                sum(block.n_tokens for block in use.request.blocks) * policy.prices.rates.input
                for use in real
            ),
            Decimal(0),
        )
        / 1_000_000
    )
    return Outcome(
        row=row,
        target=target,
        requests=len(real),
        pings=len(uses) - len(real),
        paid=paid,
        ideal=min(least_cost(real, policy), least_cost(_best_order(real), policy)),
        uncached=uncached,
    )


def _best_order(uses: Sequence[Use]) -> list[Use]:
    """The same requests with their fronts in the order that most of them share.

    What was sent in a bad order must not be the measure of itself.
    """
    times = Counter(
        block.digest for use in uses for block in (*use.request.tools, *use.request.system)
    )

    def ordered(blocks: tuple[Block, ...]) -> tuple[Block, ...]:
        return tuple(sorted(blocks, key=lambda block: (-times[block.digest], block.digest)))

    return [
        replace(
            use,
            request=replace(
                use.request, tools=ordered(use.request.tools), system=ordered(use.request.system)
            ),
        )
        for use in uses
    ]


def main() -> None:
    """Measure, print, write docs/benchmarks.json, and fail if a bound does not hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="rows whose name has this in it")
    parser.add_argument("--provider", default="", help="one provider")
    parser.add_argument(
        "--sessions", type=Path, help="recorded sessions, one JSON object a line, xz"
    )
    parser.add_argument("--n-sessions", type=int, default=100, help="how many of them")
    given = parser.parse_args()
    targets = [each for each in TARGETS if given.provider in each.provider.value]
    outcomes = [
        measure(row, target)
        for row in ROWS
        if given.only in row.name
        for target in targets
        if target.sees or not row.images
    ]
    if given.sessions is not None:
        outcomes += [_recorded(given.sessions, given.n_sessions, each) for each in targets[:2]]
    show(outcomes)
    if not given.only and not given.provider:
        write_benchmarks(BENCHMARKS, _results(outcomes))
    failed = [each for each in outcomes if not each.holds]
    sys.exit(
        "\n".join(
            f"{each.row.name} at {each.target.provider.value}: {each.ratio:.4f} is above its bound"
            for each in failed
        )
        or None
    )


def show(outcomes: Sequence[Outcome]) -> None:
    """Print the table."""
    table = Table(title="cost / ideal, input tokens only, default settings")
    for name in ("row", "provider", "ratio", "bound", "paid USD", "ideal", "uncached", "requests"):
        table.add_column(name, justify="left" if name in ("row", "provider") else "right")
    for each in outcomes:
        table.add_row(
            each.row.name,
            each.target.provider.value,
            f"{each.ratio:.4f}",
            f"{each.bound:.2f}" if each.bound is not None else "",
            f"{each.paid:.5f}",
            f"{each.ideal:.5f}",
            f"{each.uncached:.5f}",
            f"{each.requests}" + (f" + {each.pings} pings" if each.pings else ""),
        )
    Console(width=110).print(table)


def _recorded(path: Path, n_sessions: int, target: Target) -> Outcome:
    paid = ideal = uncached = Decimal(0)
    requests = 0
    for session in read_sessions(path, n_sessions=n_sessions):
        bill = asyncio.run(replay(session, target.provider, target.model))
        paid, ideal, uncached = paid + bill.paid, ideal + bill.ideal, uncached + bill.uncached
        requests += bill.requests
    return Outcome(
        row=Row(name=f"{n_sessions} recorded sessions", scenario=_plain(scenarios.one_agent)),
        target=target,
        requests=requests,
        pings=0,
        paid=paid,
        ideal=ideal,
        uncached=uncached,
    )


def _results(outcomes: Sequence[Outcome]) -> list[Result]:
    found = []
    for provider in (Provider.ANTHROPIC, Provider.OPENAI):
        strict = [
            each
            for each in outcomes
            if each.target.provider is provider and each.bound in (Decimal("1.01"), Decimal("1.03"))
        ]
        worst = max(strict, key=lambda each: each.ratio)
        found.append(
            Result(
                name=f"plan_cost_over_oracle_{provider.value}_inverse",
                value=float(round(1 / worst.ratio, 4)),
                unit="ratio",
                note=f"ideal / ours, input cost; worst of {len(strict)} rows: {worst.row.name}, "
                f"{worst.target.model}",
            )
        )
    return found


BENCHMARKS = Path(__file__).parents[2] / "docs" / "benchmarks.json"


if __name__ == "__main__":
    main()
