"""Several gates as one: all are entered, and all are left."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import cast

import pytest

from agentkit_runtime.api.asked import Asked
from agentkit_runtime.api.failure import ApiError
from agentkit_runtime.api.gates import Gates
from agentkit_runtime.chat import ChatEvent, ContentDelta

ASKED = cast("Asked", object())


class Noted:
    """A gate, and its only ticket, that write down what happens to them."""

    def __init__(self, name: str, notes: list[str], *, refuses: bool = False) -> None:
        self.name, self.notes, self.refuses = name, notes, refuses
        self.fails = False

    def enter(self, asked: Asked) -> Noted:
        if self.refuses:
            raise ApiError("full", status=429)
        self.notes.append(f"enter {self.name}")
        return self

    def opened(self) -> None:
        self.notes.append(f"opened {self.name}")

    def costs(self, left: Callable[[], Future[int]]) -> None:
        self.notes.append(f"costs {self.name}")

    def event(self, index: int, event: ChatEvent) -> None:
        self.notes.append(f"event {self.name}")

    def leave(self) -> None:
        self.notes.append(f"leave {self.name}")
        if self.fails:
            raise RuntimeError("a fault of ours")


def test_a_request_goes_through_all_in_order_and_leaves_the_last_first() -> None:
    notes: list[str] = []
    ticket = Gates([Noted("a", notes), Noted("b", notes)]).enter(ASKED)
    ticket.opened()
    ticket.costs(Future)
    ticket.event(0, ContentDelta("x"))
    ticket.leave()

    assert notes == [
        *("enter a", "enter b", "opened a", "opened b", "costs a", "costs b", "event a", "event b"),
        *("leave b", "leave a"),
    ]


def test_what_one_refuses_leaves_those_before_it() -> None:
    notes: list[str] = []
    gates = Gates([Noted("a", notes), Noted("b", notes, refuses=True), Noted("c", notes)])

    with pytest.raises(ApiError, match="full"):
        gates.enter(ASKED)

    assert notes == ["enter a", "leave a"]


def test_one_that_fails_at_leaving_keeps_nobody_inside() -> None:
    notes: list[str] = []
    first, second = Noted("a", notes), Noted("b", notes)
    second.fails = True
    ticket = Gates([first, second]).enter(ASKED)

    with pytest.raises(RuntimeError):
        ticket.leave()

    assert notes[-2:] == ["leave b", "leave a"]


def test_without_gates_everybody_is_let_in() -> None:
    Gates([]).enter(ASKED).leave()
