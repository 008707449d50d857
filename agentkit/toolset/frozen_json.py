"""JSON values that cannot be changed, yet are still real dicts and lists for every JSON library."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn


def freeze(value: object) -> object:
    """Return a deep copy of a JSON value whose objects and arrays refuse every change."""
    if isinstance(value, Mapping):
        return FrozenDict({key: freeze(member) for key, member in value.items()})
    if isinstance(value, list | tuple):
        return FrozenList([freeze(member) for member in value])
    return value


def _refuse(*_: object, **__: object) -> NoReturn:
    raise TypeError("a pinned schema cannot be changed; build a new ToolSpec instead")


class FrozenDict(dict[str, object]):
    """A dict that raises `TypeError` on every mutation. Copies and pickles are plain dicts."""

    __slots__ = ()

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __reduce__(self) -> tuple[type[dict[str, object]], tuple[dict[str, object]]]:
        return dict, ({**self},)


class FrozenList(list[object]):
    """A list that raises `TypeError` on every mutation. Copies and pickles are plain lists."""

    __slots__ = ()

    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse
    append = clear = extend = insert = pop = remove = reverse = sort = _refuse

    def __reduce__(self) -> tuple[type[list[object]], tuple[list[object]]]:
        return list, ([*self],)
