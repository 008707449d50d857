"""A quick dataclass takes, keeps and refuses what the dataclass itself does."""

from __future__ import annotations

import inspect
import pickle
from dataclasses import FrozenInstanceError, dataclass, field, replace
from typing import Any

import pytest

from agentkit.quick import quick


def _made(*, is_quick: bool) -> Any:
    @dataclass(frozen=True, slots=True)
    class Shape:
        name: str
        sides: int = 3
        tags: list[str] = field(default_factory=list)
        area: float = field(default=1.5, kw_only=True)
        notes: dict[str, int] = field(default_factory=dict, kw_only=True, compare=False)
        label: str = field(init=False)
        fixed: int = field(init=False, default=7)
        seen: list[int] = field(init=False, default_factory=list)

        def __post_init__(self) -> None:
            if self.sides < 0:
                raise ValueError("sides")
            object.__setattr__(self, "label", f"{self.name}-{self.sides}")

    return quick(Shape) if is_quick else Shape


QUICK, PLAIN = _made(is_quick=True), _made(is_quick=False)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        (("a",), {}),
        (("a", 4), {}),
        (("a", 4, ["x"]), {"area": 2.0}),
        ((), {"name": "b", "notes": {"n": 1}}),
    ],
)
def test_it_has_the_fields_of_the_dataclass(given: tuple[Any, ...], named: dict[str, Any]) -> None:
    assert repr(QUICK(*given, **named)) == repr(PLAIN(*given, **named))


@pytest.mark.parametrize(
    ("given", "named"),
    [((), {}), (("a", 1, [], 2.0), {}), (("a",), {"colour": 1}), (("a", -1), {})],
)
def test_it_refuses_what_the_dataclass_refuses(
    given: tuple[Any, ...], named: dict[str, Any]
) -> None:
    with pytest.raises((TypeError, ValueError)) as quick_error:
        QUICK(*given, **named)
    with pytest.raises(type(quick_error.value)):
        PLAIN(*given, **named)


def test_factories_make_a_value_for_each() -> None:
    assert QUICK("a").tags is not QUICK("a").tags
    assert QUICK("a").seen is not QUICK("a").seen


def test_it_stays_frozen_and_can_be_replaced_and_has_its_parameters() -> None:
    made = QUICK("a")
    with pytest.raises(FrozenInstanceError):
        made.name = "b"
    assert replace(made, name="b") == QUICK("b")
    assert list(inspect.signature(QUICK).parameters) == list(inspect.signature(PLAIN).parameters)


@quick
@dataclass(frozen=True, slots=True)
class _Point:
    x: int
    y: int = 2


def test_it_can_be_pickled() -> None:
    assert pickle.loads(pickle.dumps(_Point(1))) == _Point(1, 2)


def test_a_class_without_slots_is_refused() -> None:
    @dataclass(frozen=True)
    class Loose:
        x: int

    with pytest.raises(TypeError, match="is no slot"):
        quick(Loose)
