"""Contracts are checked against policies that change while the work goes on.

    python -m examples.compliance_check [--model gemini:gemini-3.8-flash]

The policies are a `Knowledge`: versions that stay, and one that is now. One conversation checks a
pile of contracts. When a policy changes, it is told once, by a message behind what was sent, or by
a new epoch, whichever costs less; a later check begins with whatever is cheaper, too. Each finding
names the version that it holds for, and code looks its quotes up: a model may err, and a report
may not.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pydantic import BaseModel

from agentkit import Agent, Context, Knowledge, Model, ModelRequest
from agentkit.events import ContextCompacted
from agentkit.testing import ScriptedModel, Step
from examples.house import HOUSE
from examples.offline import arguments, model_of, proven, said_to

POLICIES: Mapping[str, str] = {
    "liability.md": "Liability must be limited, to at most 500000 euros in all.\n\n"
    + "Without a limit a contract is not signed, whatever the other side says about insurance.\n"
    + "Gross negligence and intent are never limited; a contract that limits them is void here.\n"
    * 24,
    "payment.md": "Bills must be paid within at most 30 days.\n\n"
    + "Days are counted from the day on which the bill has come. A discount for fast payment is\n"
    + "welcome, and no reason for a longer time. Payment in advance is for the treasurer.\n",
    "notice.md": "A contract must have a notice of at most 90 days.\n\n"
    + "Contracts that renew themselves are signed only if the notice may be given at any time.\n"
    + "A fixed term of up to two years needs no notice, and is not a breach of this policy.\n",
}
CONTRACTS: Mapping[str, str] = {
    "caterer": "Our liability is limited to 200000 euros. Bills are due after 30 days. "
    "Either side may give notice of 60 days.",
    "printer": "Bills are due after 10 days. Our liability is limited to 900000 euros. "
    "Either side may give notice of 30 days.",
    "cleaner": "Our liability is limited to 100000 euros. Bills are due after 20 days. "
    "Either side may give notice of 180 days.",
}


class Finding(BaseModel):
    """One policy, and what a contract says of it."""

    policy: str
    quote: str
    ok: bool


class Checker(Agent[None, list[Finding]]):
    """You check one contract after the other, against each policy once.

    Judge by the policies alone, in their latest version. Quote the words of the contract that
    decide. What a policy demands and a contract does not say is a breach.
    """

    rules = HOUSE


@dataclass(frozen=True)
class Checked:
    """A report that can be defended: the version of the policies is part of it."""

    contract: str
    version: int
    findings: Sequence[Finding]

    @property
    def breaches(self) -> list[str]:
        """The policies that the contract does not keep."""
        return [finding.policy for finding in self.findings if not finding.ok]


class Office:
    """Checks contracts in one conversation, and keeps the reports."""

    def __init__(self, checker: Checker, policies: Knowledge) -> None:
        self.reports: list[Checked] = []
        self.new_epochs: list[ContextCompacted] = []
        self.context: Context | None = None
        self._checker = checker
        self._policies = policies

    async def check(self, name: str) -> Checked:
        """Check a contract against the policies as they are now."""
        prompt = f"Check the contract of the {name}:\n{CONTRACTS[name]}"
        async with self._checker.stream(prompt, context=self.context) as events:
            async for event in events:
                if isinstance(event, ContextCompacted):
                    self.new_epochs.append(event)
        self.context, findings = events.result.context, events.result.output
        version = self._policies.version
        for finding in findings:
            assert finding.policy in self._policies.snapshot(version).uris, finding
            assert finding.quote in CONTRACTS[name], f"not in the contract: {finding}"
        self.reports.append(Checked(name, version, findings))
        return self.reports[-1]


async def work(model: Model, policies: Knowledge) -> tuple[Office, Office]:
    """Check everything; change a policy on the way, and another one again and again."""
    checker = Checker(model=model, knowledge=policies)
    office, another = Office(checker, policies), Office(checker, policies)
    for name in CONTRACTS:
        await office.check(name)
    policies.put("payment.md", POLICIES["payment.md"].replace("30 days", "14 days"))
    for name in CONTRACTS:
        await office.check(name)
    for most in range(450_000, 150_000, -50_000):  # the lawyers cannot agree
        policies.put("liability.md", POLICIES["liability.md"].replace("500000", str(most)))
        await office.check("caterer")
    await another.check("caterer")
    return office, another


LIMITS = {
    "liability.md": r"limited to (\d+)",
    "payment.md": r"after (\d+)",
    "notice.md": r"of (\d+)",
}


def script(request: ModelRequest) -> Step:
    """The offline model reads the limits where they were told last, as a model should."""
    told = "\n".join(segment.data.decode() for segment in request.context)
    findings = []
    for policy, pattern in LIMITS.items():
        limit = re.findall(r"at most (\d+)", told[told.rindex(f"{POLICIES[policy][:20]}") :])[0]
        said = re.search(pattern, said_to(request))
        assert said is not None
        ok = int(said[1]) <= int(limit)
        findings.append(Finding(policy=policy, quote=said[0], ok=ok).model_dump())
    return json.dumps(findings)


def main(argv: list[str] | None = None) -> None:
    """Check the contracts, and what was said of them."""
    model = model_of(arguments(__doc__, argv).model, script)
    with Knowledge() as policies, proven(model, anthropic=0.75, openai=0.73):
        policies.put_all(POLICIES)
        begun = policies.version
        office, another = asyncio.run(work(model, policies))
        for report in office.reports:
            print(f"{report.contract:8} version {report.version:2} breaches {report.breaches}")
        first, later = ({r.contract: r.breaches for r in office.reports[i : i + 3]} for i in (0, 3))
        if isinstance(model, ScriptedModel):
            assert first == {"caterer": [], "printer": ["liability.md"], "cleaner": ["notice.md"]}
            assert later["caterer"] == ["payment.md"], "it was told of the new policy"
        assert "at most 30 days" in str(policies.snapshot(begun).documents), "old versions stay"
        assert office.context is not None
        assert another.context is not None
        print(f"{len(office.new_epochs)} new epoch(s): {[e.reason for e in office.new_epochs]}")
        assert any(epoch.cause == "documents" for epoch in office.new_epochs)
        assert "at most 200000" in str(another.context.segments), "who begins now knows the latest"


if __name__ == "__main__":
    main()
