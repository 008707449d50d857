"""A model that says what a test wants, under the real engine, scheduler, tree and pool.

`ScriptedDecoder` writes each token id into the KV slot it is given and reads its whole context back
from the slots that the attention plan names. So a wrong slot is a wrong answer.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch

from agentkit_runtime.attention.base import AttentionStats, ForwardBatch
from agentkit_runtime.attention.plan import AttentionPlan, CausalPart, Lane, ReadPart
from agentkit_runtime.engine import Engine
from agentkit_runtime.kv.namespace import Identity
from agentkit_runtime.kv.pool import KvStorage
from agentkit_runtime.kv.tiers.base import Tiers
from agentkit_runtime.load import LoadedModel, build_core
from agentkit_runtime.model.config import ModelConfig
from agentkit_runtime.text.template import ChatTemplate
from agentkit_runtime.text.tokenizer import Tokenizer

NextToken = Callable[[list[int]], int]
"""Maps the whole context, as token ids, to the next token id; `NOT_FINITE` spoils the logits."""

NOT_FINITE = -1

BOUND_S = 30.0
"""No test waits longer for anything."""


def tiny_config(vocab: int, max_position: int) -> ModelConfig:
    """The smallest pool that holds one number per token."""
    return ModelConfig(
        family="llama",
        n_layers=1,
        hidden=2,
        n_heads=1,
        n_kv_heads=1,
        head_dim=2,
        intermediate=2,
        vocab=vocab,
        rms_eps=1e-5,
        rope_theta=10_000.0,
        max_position=max_position,
    )


class ScriptedDecoder:
    """Stands in for `model.decoder.Decoder`."""

    def __init__(self, config: ModelConfig, next_token: NextToken) -> None:
        self.config = config
        self.attention = OneByOne()
        self._next_token = next_token

    def forward(self, batch: ForwardBatch, storage: KvStorage) -> torch.Tensor:
        """Logits [R, vocab] with all weight on the scripted token."""
        memory = storage.keys[0, :, 0, 0]
        memory[batch.slots] = batch.token_ids.to(memory.dtype)
        logits = torch.zeros(len(batch.logit_rows), self.config.vocab)
        for index, row in enumerate(batch.logit_rows.tolist()):
            token_id = self._next_token(_context(batch, memory, row))
            if token_id == NOT_FINITE:
                logits[index] = float("nan")
            else:
                logits[index, token_id] = 100.0
        return logits


class OneByOne:
    """Plans a read for each extent of each lane: nothing is shared or gathered."""

    stats = AttentionStats()

    def plan(self, lanes: Sequence[Lane]) -> AttentionPlan:
        """One read for each extent of a lane's past, and its own tokens."""
        reads: list[ReadPart] = []
        causal: list[CausalPart] = []
        positions: list[int] = []
        for lane in lanes:
            row, first = len(positions), 0
            for extent in lane.past:
                reads.append(ReadPart(row, lane.n_new, extent, first))
                first += extent.length
            causal.append(CausalPart(row, lane.n_new))
            positions += range(lane.position, lane.position + lane.n_new)
        return AttentionPlan(positions=tuple(positions), reads=tuple(reads), causal=tuple(causal))


def _context(batch: ForwardBatch, memory: torch.Tensor, row: int) -> list[int]:
    """All token ids that `row` attends to, by position."""
    reads = [r for r in batch.plan.reads if r.row <= row < r.row + r.n_rows]
    context: list[int] = []
    for read in sorted(reads, key=lambda read: read.first):
        assert read.first == len(context)
        context += memory[read.extent.start : read.extent.end].int().tolist()
    for part in batch.plan.causal:
        if part.row <= row < part.row + part.n_rows:
            context += batch.token_ids[part.row : row + 1].tolist()
    assert len(context) == batch.positions[row] + 1
    return context


class Script:
    """Answers by the text of the last message in front of the generation prompt.

    `answers` maps a text that must occur in the prompt's last message to the reply. The reply is
    said one character at a time when `by_character` is set: ids that tokenising never gives.
    Replies that end in "..." never end.
    """

    def __init__(
        self, tokenizer: Tokenizer, answers: dict[str, str], *, by_character: bool = False
    ) -> None:
        self._tokenizer = tokenizer
        self._answers = answers
        self._by_character = by_character
        self._opening = tokenizer.encode_rendered("<|im_start|>assistant\n", None)
        self._turn_start = self._opening[0]
        self._end = tokenizer.encode_rendered("<|im_end|>", None)[0]

    def __call__(self, context: list[int]) -> int:
        start = _last_index(context, self._opening)
        said = b"".join(map(self._tokenizer.token_bytes, context[start:]))
        reply = self._reply(self._last_message(context[: start - len(self._opening)]))
        if reply.endswith("..."):
            reply = reply[:-3] + " more" * (len(said) // 5 + 2)
        return self._next(reply, said)

    def _next(self, reply: str, said: bytes) -> int:
        """The token that comes at this place in the reply; afresh where a grammar cut otherwise."""
        done = b""
        for token_id in self._ids(reply):
            if done == said:
                return token_id
            done += self._tokenizer.token_bytes(token_id)
        assert done.startswith(said), (reply, said)
        rest = done[len(said) :].decode()
        return self._tokenizer.encode(rest)[0] if rest else self._end

    def _ids(self, reply: str) -> list[int]:
        if not self._by_character:
            return self._tokenizer.encode(reply)
        return [token_id for char in reply for token_id in self._tokenizer.encode(char)]

    def _reply(self, message: str) -> str:
        found = [reply for asked, reply in self._answers.items() if asked in message]
        assert len(found) == 1, f"{len(found)} answers for {message!r}"
        return found[0]

    def _last_message(self, context: list[int]) -> str:
        last = len(context) - 1 - context[::-1].index(self._turn_start)
        return self._tokenizer.decode(context[last:])


class Pace:
    """Lets a test hold the model still in the middle of a reply. Open at first."""

    def __init__(self, script: NextToken) -> None:
        self._script = script
        self._open = threading.Event()
        self._open.set()
        self.waiting = threading.Event()
        """Set once a token had to wait."""
        self.n_tokens = 0

    def __call__(self, context: list[int]) -> int:
        if not self._open.is_set():
            self.waiting.set()
        assert self._open.wait(BOUND_S), "a test left the model held"
        self.n_tokens += 1
        return self._script(context)

    def hold(self) -> None:
        """Make the next token wait for `go`."""
        self.waiting.clear()
        self._open.clear()

    def go(self) -> None:
        """Open again."""
        self._open.set()


@contextmanager
def scripted_model(
    tokenizer: Tokenizer,
    template: ChatTemplate,
    next_token: NextToken,
    *,
    n_slots: int = 4096,
    max_position: int = 100_000,
    kv_events: int | None = None,
    tiers: Callable[[KvStorage], Tiers] | None = None,
) -> Iterator[LoadedModel]:
    """A loaded model whose engine runs until the block ends."""
    config = tiny_config(tokenizer.vocab_size, max_position)
    decoder = ScriptedDecoder(config, next_token)
    core = build_core(decoder, n_slots=n_slots, kv_events=kv_events, tiers=tiers)  # type: ignore[arg-type]
    with Engine(core) as engine:
        yield LoadedModel(
            label="scripted",
            engine=engine,
            config=config,
            tokenizer=tokenizer,
            template=template,
            identity=Identity(
                weights="scripted",
                dtype="float32",
                kv_dtype="float32",
                tokenizer=tokenizer.fingerprint,
                template=template.fingerprint,
            ),
        )


def wait_until(condition: Callable[[], bool]) -> None:
    """Poll until `condition` holds; fails when that takes too long."""
    deadline = time.monotonic() + BOUND_S
    pause = threading.Event()
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        pause.wait(0.002)


def _last_index(haystack: Sequence[int], needle: Sequence[int]) -> int:
    """Where the last occurrence of `needle` ends."""
    for end in range(len(haystack), len(needle) - 1, -1):
        if list(haystack[end - len(needle) : end]) == list(needle):
            return end
    raise AssertionError("the context has no generation prompt")
