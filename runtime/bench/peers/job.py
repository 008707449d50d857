"""What every engine is asked to do for teams, decoding and prefill. Standard library only.

An engine is a process of its own that gets a job as JSON, does all of it on token ids, and prints
one JSON object a measurement: {"name", "value"}; values are seconds, or tokens a second.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Sizes in tokens."""

    model: str
    """Path of the GGUF."""
    threads: int = 2
    teams: tuple[tuple[int, str], ...] = ((4, "warm"),)
    """How many subagents, and whether the shared prefix is "warm" or "cold"."""
    prefix: int = 4_000
    own: int = 150
    n_out: int = 32
    lengths: tuple[int, ...] = (1_000,)
    """Prompts that are prefilled cold."""
    context: int = 1_000
    """Behind which one sequence decodes."""
    decoded: int = 32

    def dump(self) -> str:
        """Return it as JSON."""
        return json.dumps(asdict(self))

    @staticmethod
    def load(text: str) -> Job:
        """Read what `dump` wrote."""
        fields = json.loads(text)
        fields["teams"] = tuple((int(n), str(state)) for n, state in fields["teams"])
        fields["lengths"] = tuple(fields["lengths"])
        return Job(**fields)

    @property
    def widest(self) -> int:
        """The largest team."""
        return max((n for n, _ in self.teams), default=1)

    @property
    def longest(self) -> int:
        """Tokens of the longest sequence."""
        team = self.prefix + self.own + self.n_out
        return max(team, *self.lengths, self.context + self.decoded + 1) + 8


class Runner(Protocol):
    """An engine that is loaded."""

    def warm(self, prefix: list[int], n: int) -> None:
        """Compute a prefix that `n` sequences will start from; not timed."""

    def run(self, prompts: list[list[int]], n_out: int) -> float:
        """Generate exactly `n_out` tokens for each prompt, all at once; returns wall seconds."""


def play(open_runner: Callable[[Job], Runner]) -> None:
    """Do the job that is the process's last argument."""
    job = Job.load(sys.argv[-1])
    runner = open_runner(job)
    draw = random.Random(11)

    def tokens(n: int) -> list[int]:
        return [draw.randrange(100, 48_000) for _ in range(n)]

    runner.run([tokens(64), tokens(64)], 2)  # memory and kernels are touched
    for length in job.lengths:
        _say(f"prefill_{length}", runner.run([tokens(length)], 1))
    context = tokens(job.context)
    runner.warm(context, 1)
    one = min(runner.run([context], 1) for _ in range(2))
    many = runner.run([context], 1 + job.decoded)
    _say("decode_rate", job.decoded / (many - one))
    for n, state in job.teams:
        prefix = tokens(job.prefix)
        if state == "warm":
            runner.warm(prefix, n)
        _say(
            f"team_{n}_{state}", runner.run([prefix + tokens(job.own) for _ in range(n)], job.n_out)
        )


def _say(name: str, value: float) -> None:
    sys.stdout.write(json.dumps({"name": name, "value": value}) + "\n")
    sys.stdout.flush()
