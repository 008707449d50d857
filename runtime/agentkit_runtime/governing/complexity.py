"""Bounds on what one request may ask for, checked before anything is rendered or compiled.

A schema or a pattern of a few kilobytes can describe a grammar that takes minutes to compile, and a
million small messages take longer to render than to refuse. Sizes of bodies are bounded before
(`api.body_limit`), lengths of prompts behind (`ChatService.prepare`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from agentkit_runtime.api.failure import ApiError
from agentkit_runtime.chat import ChatRequest
from agentkit_runtime.checks import require_whole


@dataclass(frozen=True, slots=True, kw_only=True)
class ComplexityLimits:
    """The most that one request may have."""

    max_messages: int = 20_000
    max_tools: int = 1_024
    max_schema_nodes: int = 50_000
    """JSON values in all schemas of a request together."""
    max_schema_depth: int = 64
    max_pattern_chars: int = 4_096
    """Of one regular expression."""
    max_enum_values: int = 10_000
    """Of one `enum`."""
    max_stop_strings: int = 64
    max_stop_chars: int = 1_024
    """Of one stop string."""

    def __post_init__(self) -> None:
        for name in self.__dataclass_fields__:
            require_whole(name, getattr(self, name), least=1)


def check_complexity(chat: ChatRequest, limits: ComplexityLimits) -> None:
    """Raise `ApiError` (400; `param` is a field of `ChatRequest`) for what is too much."""
    _check_count("messages", len(chat.messages), limits.max_messages)
    _check_count("tools", len(chat.tools), limits.max_tools)
    _check_count("stop", len(chat.sampling.stop), limits.max_stop_strings)
    for text in chat.sampling.stop:
        if len(text) > limits.max_stop_chars:
            raise _too_much(
                f"a stop string has {len(text)} characters, at most {limits.max_stop_chars} are "
                "taken",
                "stop",
            )
    n_left = limits.max_schema_nodes
    for field, schema in _schemas(chat):
        n_left -= _count(schema, field, n_left, limits)


def _check_count(field: str, n: int, most: int) -> None:
    if n > most:
        raise _too_much(f"{field} has {n} entries, at most {most} are taken", field)


def _schemas(chat: ChatRequest) -> Iterator[tuple[str, Mapping[str, object]]]:
    for index, tool in enumerate(chat.tools):
        yield f"tools[{index}]", tool.parameters
    if chat.response_schema is not None:
        yield "response_format", chat.response_schema


def _count(schema: object, field: str, most: int, limits: ComplexityLimits) -> int:
    """How many JSON values a schema has. Walks with a stack: depth is what is to be found out."""
    n = 0
    stack: list[tuple[object, int]] = [(schema, 0)]
    while stack:
        value, depth = stack.pop()
        n += 1
        if n > most:
            raise _too_much(
                f"the schemas have more than {limits.max_schema_nodes} values together; simplify "
                "them, or send fewer tools",
                field,
            )
        if depth > limits.max_schema_depth:
            raise _too_much(
                f"the schema is nested deeper than {limits.max_schema_depth} levels", field
            )
        if isinstance(value, Mapping):
            _check_keywords(value, field, limits)
            stack += [(item, depth + 1) for item in value.values()]
        elif isinstance(value, list | tuple):
            stack += [(item, depth + 1) for item in value]
    return n


def _check_keywords(value: Mapping[object, object], field: str, limits: ComplexityLimits) -> None:
    pattern, enum = value.get("pattern"), value.get("enum")
    if isinstance(pattern, str) and len(pattern) > limits.max_pattern_chars:
        raise _too_much(
            f"a pattern has {len(pattern)} characters, at most {limits.max_pattern_chars} are "
            "taken",
            field,
        )
    if isinstance(enum, list | tuple) and len(enum) > limits.max_enum_values:
        raise _too_much(
            f"an enum has {len(enum)} values, at most {limits.max_enum_values} are taken", field
        )


def _too_much(message: str, field: str) -> ApiError:
    return ApiError(message, param=field, code="request_too_complex")
