"""Where a request has what the runtime refuses of its tools."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from agentkit_runtime.api.failure import ApiError
from agentkit_runtime.errors import RequestRejected

_OF_TOOL = re.compile(r"tools\[(\d+)\]\.parameters")


@contextmanager
def naming_tools(fields: Sequence[str]) -> Iterator[None]:
    """Name the parameters of tools as the client's request does.

    Args:
        fields: of each tool that the model sees, where the request says what its calls are like.

    Raises:
        ApiError: 400, in the place of a refusal of one of them.
    """
    try:
        yield
    except RequestRejected as fault:
        found = _OF_TOOL.fullmatch(fault.field or "")
        if found is None or int(found[1]) >= len(fields):
            raise
        field = fields[int(found[1])]
        message = str(fault).replace(found[0], field)
        raise ApiError(message, param=field, code="invalid_value") from fault
