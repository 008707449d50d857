"""Several gates as one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import ExitStack

from agentkit_runtime.api.asked import Asked, Gate, Ticket
from agentkit_runtime.api.caller import Caller
from agentkit_runtime.chat import ChatEvent


class Gates:
    """Lets in what all gates let in, asked in their order. What one refuses leaves the others."""

    def __init__(self, gates: Sequence[Gate]) -> None:
        self._gates = tuple(gates)

    def enter(self, asked: Asked) -> Tickets:
        """Let a request in. Raises what the first gate that refuses it raises."""
        with ExitStack() as inside:
            tickets: list[Ticket] = []
            for gate in self._gates:
                tickets.append(gate.enter(asked))
                inside.callback(tickets[-1].leave)
            return Tickets(tickets, inside.pop_all())

    def look(self, caller: Caller) -> None:
        """Let a request in that wants no answer. Raises what the first gate raises."""
        for gate in self._gates:
            gate.look(caller)


class Tickets:
    """A request's places behind several gates."""

    def __init__(self, tickets: Sequence[Ticket], inside: ExitStack) -> None:
        self._tickets = tuple(tickets)
        self._inside = inside

    def opened(self) -> None:
        """The engine has the request."""
        for ticket in self._tickets:
            ticket.opened()

    def costs(self, left: Callable[[], Future[int]]) -> None:
        """`left` asks the engine what it has to compute of a prompt."""
        for ticket in self._tickets:
            ticket.costs(left)

    def event(self, index: int, event: ChatEvent) -> None:
        """Answer `index` went on."""
        for ticket in self._tickets:
            ticket.event(index, event)

    def leave(self) -> None:
        """Leave all, the last one first; also when one fails at it."""
        self._inside.close()
