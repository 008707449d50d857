"""How the batch class stays out of the way of those that somebody waits for.

Two things would make a person wait for the first token: the step that runs when the request comes,
and company in the steps that compute its prompt. So prompts of the batch class are computed in
pieces that take no longer than `batch_step_s`, and while an interactive request has no first token,
the batch class rests, for at most `batch_rests_s` at a time.
"""

from __future__ import annotations

from collections.abc import Sequence as ReadOnly

from agentkit_runtime.sched.options import SchedulerOptions
from agentkit_runtime.sched.sequence import Sequence
from agentkit_runtime.sched.waiting import WaitingQueue
from agentkit_runtime.types import Priority

LEAST_TOKENS = 16
"""A batch prompt goes on by at least so many tokens in a step in which the class may run."""

_UNMEASURED_TOKENS = 64
"""As many are taken before a step was measured."""

_WEIGHT = 0.2
"""Of the newest step, in the running mean of how long a token takes."""


class Resting:
    """Decides for each step what the batch class may do."""

    def __init__(self, options: SchedulerOptions) -> None:
        self._options = options
        self._since_s: float | None = None
        """When the class began to rest; None: it does not."""
        self._token_s: float | None = None
        """How long a token takes in steps that compute prompts; None: not measured yet."""

    def note(self, n_tokens: int, seconds: float) -> None:
        """Learn from a step that computed prompts."""
        token_s = seconds / max(1, n_tokens)
        if self._token_s is None:
            self._token_s = token_s
        else:
            self._token_s += _WEIGHT * (token_s - self._token_s)

    def rests(self, running: ReadOnly[Sequence], waiting: WaitingQueue, now_s: float) -> bool:
        """Whether the batch class rests in this step."""
        if not self._options.batch_rests_s or not _is_urgent(running, waiting):
            self._since_s = None
            return False
        if self._since_s is None:
            self._since_s = now_s
        if now_s - self._since_s >= self._options.batch_rests_s:
            self._since_s = None  # one step, then it may rest again
            return False
        return True

    def batch_tokens(self, n_decoding: int) -> int:
        """Tokens of batch prompts that fit into a step in which `n_decoding` lanes decode."""
        if self._options.batch_step_s is None:
            return self._options.step_tokens
        if self._token_s is None:
            fitting = _UNMEASURED_TOKENS
        else:
            fitting = int(self._options.batch_step_s / max(self._token_s, 1e-9))
        return max(LEAST_TOKENS, min(self._options.step_tokens, fitting) - n_decoding)


def _is_urgent(running: ReadOnly[Sequence], waiting: WaitingQueue) -> bool:
    """Whether an interactive request has no first token yet."""
    return waiting.counts[Priority.INTERACTIVE] > 0 or any(
        s.priority is Priority.INTERACTIVE and s.prefilling for s in running
    )
