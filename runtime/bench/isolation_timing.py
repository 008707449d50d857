"""Does time tell whether another tenant has asked the same? Real model, real server, real clock.

    python runtime/bench/isolation_timing.py [--auc 0.65] [--words 60]

Ann asks a question with a long front; then bob asks the very same, and another one of the same
length that nobody has asked, in random order. Bob's times to the whole answer (one token) are
compared by a Mann-Whitney U test, two-sided at 5 %. So many pairs are taken that it would find with
a power of 0.9, a server at which a foreign warm prompt is the faster one with a probability of
`--auc` (Noether, "Sample size determination for some common nonparametric tests", JASA 82, 1987).
As a control bob also asks again what he has asked himself: that must be found at once.

Ends with 1 when a difference is found, or none in the control. By chance the first happens in one
of twenty runs.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist

import httpx2

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from agentkit_runtime.tenancy.store import KeyStore
from bench.serve_process import serve_process

ALPHA = 0.05
POWER = 0.9
WORDS = ("museum", "harbour", "ledger", "winter", "painting", "boat", "council", "loan")


def pairs_needed(auc: float) -> int:
    """Observations in each of two equal groups (Noether 1987, equation 2)."""
    z = NormalDist().inv_cdf(1 - ALPHA / 2) + NormalDist().inv_cdf(POWER)
    return math.ceil(z**2 / (6 * (auc - 0.5) ** 2))


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two samples of seconds. `auc`: how likely one of the first is less than one of the second."""

    auc: float
    p_value: float

    @classmethod
    def of(cls, first: Sequence[float], second: Sequence[float]) -> Comparison:
        """The Mann-Whitney test with its normal approximation; ties count half."""
        n, m = len(first), len(second)
        less = sum((a < b) + (a == b) / 2 for a in first for b in second)
        deviation = math.sqrt(n * m * (n + m + 1) / 12)
        z = (abs(less - n * m / 2) - 0.5) / deviation
        return cls(less / (n * m), min(1.0, 2 * (1 - NormalDist().cdf(z))))


def front(rng: random.Random, n_words: int) -> str:
    """A front that nobody has sent before: it differs from others from its first word on."""
    return " ".join((f"{rng.getrandbits(48):012x}", *(rng.choice(WORDS) for _ in range(n_words))))


class Asker:
    """One tenant."""

    def __init__(self, url: str, key: str) -> None:
        self._client = httpx2.Client(
            base_url=url, headers={"Authorization": f"Bearer {key}"}, timeout=120
        )

    def ask(self, system: str) -> tuple[float, int]:
        """Seconds to the answer, and how many tokens were cached."""
        messages = [{"role": "system", "content": system}, {"role": "user", "content": "Go on."}]
        body = {"model": "smollm2", "messages": messages, "max_tokens": 1}
        began = time.perf_counter()
        answer = self._client.post("/v1/chat/completions", json=body)
        seconds = time.perf_counter() - began
        answer.raise_for_status()
        details = answer.json()["usage"]["prompt_tokens_details"]
        return seconds, int(details["cached_tokens"])

    def close(self) -> None:
        """Close the connection."""
        self._client.close()


def measure(ann: Asker, bob: Asker, n_pairs: int, n_words: int) -> dict[str, list[float]]:
    """Bob's seconds: for what ann has asked, for what nobody has, for what he has asked himself."""
    rng = random.Random(7)
    seconds: dict[str, list[float]] = {"foreign": [], "cold": [], "own": []}
    for _ in range(n_pairs):
        foreign, cold = front(rng, n_words), front(rng, n_words)
        ann.ask(foreign)
        texts = [("foreign", foreign), ("cold", cold)]
        rng.shuffle(texts)
        cached = []
        for kind, text in texts:
            taken, n_cached = bob.ask(text)
            seconds[kind].append(taken)
            cached.append(n_cached)
        assert max(cached) < 8, f"bob reads {cached} cached tokens of a prompt that he never sent"
        seconds["own"].append(bob.ask(cold)[0])
    return seconds


def main() -> int:
    """Run it; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--auc", type=float, default=0.65, help="effect that is to be found")
    parser.add_argument("--words", type=int, default=60, help="length of a front")
    asked = parser.parse_args()
    n_pairs = pairs_needed(asked.auc)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "keys.db"
        with KeyStore(path, create=True) as store:
            keys = [
                store.add(roles=frozenset({"user"}), tenant=name, now_s=time.time()).key
                for name in ("ann", "bob")
            ]
        with serve_process("--keys", str(path), "--threads", "1") as server:
            ann, bob = (Asker(server.url, key) for key in keys)
            seconds = measure(ann, bob, n_pairs, asked.words)
            ann.close()
            bob.close()
    return report(seconds, asked.auc)


def report(seconds: dict[str, list[float]], auc: float) -> int:
    """Print what was found; returns the exit code."""
    lines = [
        f"{kind:<8} median {1e3 * statistics.median(taken):7.1f} ms  n = {len(taken)}"
        for kind, taken in seconds.items()
    ]
    test = Comparison.of(seconds["foreign"], seconds["cold"])
    control = Comparison.of(seconds["own"], seconds["cold"])
    lines += [
        f"foreign against cold: AUC {test.auc:.3f}, p = {test.p_value:.3f} "
        f"(power {POWER} at AUC {auc}, two-sided at {ALPHA})",
        f"own against cold:     AUC {control.auc:.3f}, p = {control.p_value:.2g} (the control)",
    ]
    sys.stdout.write("\n".join(lines) + "\n")
    return 0 if test.p_value >= ALPHA > control.p_value else 1


if __name__ == "__main__":
    sys.exit(main())
