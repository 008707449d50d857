"""From the beginning of a conversation to its prompt's ids, so that only what is new costs work.

A prompt is found again by the messages that it was made of. What is then taken over was proved and
not guessed: the checked messages, because the same messages are in front; the ids, because the new
text begins with the very text that was tokenised, up to a cut that no further text can move. So the
memory is exact for every template, also for one that rewrites earlier turns: its text differs, and
nothing is taken over from there on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from agentkit_runtime.chat import ChatMessage
from agentkit_runtime.text.front import Front
from agentkit_runtime.text.recent import Recent
from agentkit_runtime.token_memory import IdCut

_MESSAGE_BYTES = 300
"""What a message weighs besides its text, which the prompt's text stands for."""

_ID_BYTES = 8

_LAST_CUTS = 8
"""As many are kept of a prompt's end: a template may say something else behind the last message."""


@dataclass(frozen=True, slots=True)
class Cut:
    """A place in front of a special token, where text and ids can both be cut."""

    n_chars: int
    ids: IdCut


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownPrompt:
    """A prompt that was rendered and tokenised before."""

    front: Front
    text: str
    """The marked text."""
    escape: str | None
    cuts: tuple[Cut, ...]
    """Some of its cuts, rising."""
    ids: tuple[int, ...]
    runs: bool = False
    """Whether it was made to be computed, and not only to be counted or compared."""

    @property
    def weight(self) -> int:
        """Bytes, roughly."""
        n_messages = len(self.front.messages)
        return 2 * len(self.text) + _MESSAGE_BYTES * n_messages + _ID_BYTES * len(self.ids)

    def common_cuts(self, text: str, escape: str | None, beyond: int) -> tuple[Cut, ...]:
        """The cuts that another marked text has, too.

        It has those up to which, and for `beyond` characters more, it is the same.
        """
        if self.escape not in (None, escape):
            return ()
        low, high = 0, len(self.cuts)
        while low < high:
            middle = (low + high) // 2
            end = self.cuts[middle].n_chars + beyond
            if end <= len(self.text) and text.startswith(self.text[:end]):
                low = middle + 1
            else:
                high = middle
        return self.cuts[:low]


def thinned(cuts: Sequence[Cut]) -> tuple[Cut, ...]:
    """The last cuts, and of the earlier ones the fewer the farther back they are."""
    kept = list(cuts[-_LAST_CUTS:])
    step = 1
    place = len(cuts) - _LAST_CUTS - 1
    while place >= 0:
        kept.append(cuts[place])
        place -= step
        step *= 2
    return tuple(sorted(kept, key=lambda cut: cut.n_chars))


class PromptMemory:
    """A bounded memory of prompts, least recently used first out. Thread-safe.

    Every entry belongs to the namespace it was made in, and no other can find it.
    """

    def __init__(self, *, max_bytes: int = 64_000_000) -> None:
        """`max_bytes` bounds the memory, roughly."""
        self._known: Recent[int, KnownPrompt] = Recent(max_bytes)

    def __len__(self) -> int:
        return len(self._known)

    def find(
        self,
        keys: Sequence[int],
        messages: tuple[ChatMessage, ...],
        *,
        that_ran: bool = False,
    ) -> KnownPrompt | None:
        """The prompt of the most of these messages' first ones; None if none is known.

        `keys` are the `prompt_keys` of the messages. With `that_ran` only what was made to be
        computed is looked for.
        """
        for n in range(len(messages), 0, -1):
            known = self._known.get(keys[n])
            if known is None or (that_ran and not known.runs):
                continue
            # The key is a hash: only equality proves that these are the messages.
            if known.front.messages == messages[:n]:
                return known
        return None

    def keep(self, key: int, prompt: KnownPrompt) -> None:
        """Remember a prompt by the last of its keys. One that ran has run, whoever asks next."""
        if not prompt.runs:
            before = self._known.get(key)
            if before is not None and before.runs and before.ids == prompt.ids:
                prompt = replace(prompt, runs=True)
        self._known.put(key, prompt, prompt.weight)


def prompt_keys(namespace: bytes, front_name: int, messages: Sequence[ChatMessage]) -> list[int]:
    """A number for each count of leading messages, from none to all.

    `front_name` tells prompts apart that the messages alone do not, such as by their tools.
    """
    first = hash((namespace, front_name))
    return list(accumulate(messages, lambda key, message: hash((key, message)), initial=first))
