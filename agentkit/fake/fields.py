"""Reading fields of a JSON body, with the complaint that an API makes of a wrong one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

JsonObject: TypeAlias = Mapping[str, Any]


class Problem(Exception):
    """A request that an API answers with an error. `status` says which kind."""

    def __init__(
        self,
        message: str,
        *,
        status: int = 400,
        param: str | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.param = param
        """The field that is wrong, where the API says it."""
        self.retry_after_s = retry_after_s


def object_of(value: object, path: str) -> JsonObject:
    """Return the value if it is an object."""
    if not isinstance(value, Mapping):
        raise Problem(f"{path}: Input should be an object", param=path)
    return value


def objects_of(value: object, path: str) -> tuple[JsonObject, ...]:
    """Return the items of a list of objects; None is an empty list."""
    if value is None:
        return ()
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        raise Problem(f"{path}: Input should be a list", param=path)
    return tuple(object_of(item, f"{path}.{index}") for index, item in enumerate(value))


def text_of(body: JsonObject, name: str, path: str = "") -> str:
    """Return a field that must be there and be a string."""
    where = f"{path}.{name}" if path else name
    if name not in body:
        raise Problem(f"{where}: Field required", param=where)
    value = body[name]
    if not isinstance(value, str):
        raise Problem(f"{where}: Input should be a string", param=where)
    return value


def count_of(body: JsonObject, name: str, *, least: int) -> int | None:
    """Return a field that is a whole number; None if it is left out."""
    value = body.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise Problem(f"{name}: Input should be a valid integer", param=name)
    if value < least:
        raise Problem(f"{name}: Input should be greater than or equal to {least}", param=name)
    return value


def flag_of(body: JsonObject, name: str) -> bool:
    """Return a field that is true or false; left out, it is false."""
    value = body.get(name)
    if value is None:
        return False
    if not isinstance(value, bool):
        raise Problem(f"{name}: Input should be a valid boolean", param=name)
    return value
