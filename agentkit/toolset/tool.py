"""The values of the tool seam: what a tool is, what a call knows, what it answers."""

from __future__ import annotations

import builtins
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar, runtime_checkable

from agentkit.blocks import File, Image
from agentkit.toolset.caller import NOBODY, Caller
from agentkit.toolset.canonical import canonical_json, canonical_schema
from agentkit.toolset.errors import ToolDefinitionError
from agentkit.toolset.frozen_json import freeze

Deps_co = TypeVar("Deps_co", covariant=True)

_LEGAL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_PINNED = ("name", "description", "parameters")


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSpec:
    """What the model sees of a tool; canonical and pinned at construction.

    `parameters` is a JSON schema of type "object"; the spec keeps its canonical, unchangeable copy.
    `source` says where the tool comes from, for error messages; it is no part of `bytes`.

    Raises:
        ToolDefinitionError: the name is not legal everywhere, or the schema has no canonical form.
    """

    name: str
    description: str
    parameters: Mapping[str, object]
    source: str = field(default="python", compare=False)
    bytes: bytes = field(init=False, repr=False)
    """The canonical JSON of name, description and parameters: what hashes and comparisons use."""

    def __post_init__(self) -> None:
        check_tool_name(self.name)
        try:
            parameters = canonical_schema(self.parameters)
            pinned = canonical_json(
                {"name": self.name, "description": self.description, "parameters": parameters}
            )
        except ValueError as error:
            raise ToolDefinitionError(f"tool {self.name!r} from {self.source}: {error}") from error
        object.__setattr__(self, "parameters", freeze(parameters))
        object.__setattr__(self, "bytes", pinned)

    @classmethod
    def pinned(cls, data: builtins.bytes, source: str = "python") -> ToolSpec:
        """Return the spec that a conversation was shown, from its `bytes`, which stay as they are.

        Raises:
            ToolDefinitionError: they are not those of a spec.
        """
        try:
            value = json.loads(data)
            name, description, parameters = (value[key] for key in _PINNED)
            if not isinstance(parameters, dict) or not isinstance(description, str):
                raise TypeError("a description must be a text, and parameters an object")
        except (ValueError, TypeError, KeyError) as error:
            raise ToolDefinitionError(f"not a pinned tool: {data[:200]!r} ({error})") from error
        check_tool_name(name)
        spec = object.__new__(cls)
        # Not `parameters`: see `__getattr__`.
        for field_name, given in (
            ("name", name),
            ("description", description),
            ("source", source),
            ("bytes", data),
        ):
            object.__setattr__(spec, field_name, given)
        return spec

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Mapping[str, object]:
            """The parameters of a pinned spec, made when they are wanted: most are only sent."""
            if name != "parameters":
                raise AttributeError(f"ToolSpec has no attribute {name!r}")
            parameters = freeze(json.loads(self.bytes)["parameters"])
            object.__setattr__(self, "parameters", parameters)
            return parameters

    def __hash__(self) -> int:
        return hash(self.bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOutput:
    """A tool's answer. The model reads `content`, and sees `attachments` if it can.

    `blocks` keeps what the model is not shown (audio, resources of an MCP result) for other
    readers; `structured` keeps a structured result as a JSON value.

    Raises:
        TypeError: the content is no text, `is_error` no bool, or an attachment neither an `Image`
            nor a `File`. Raised inside a tool, it becomes an error result.
    """

    content: str
    is_error: bool = False
    attachments: tuple[Image | File, ...] = ()
    """Images and documents. One that no provider could decode is left out, and a note says so."""
    blocks: tuple[Mapping[str, object], ...] = ()
    structured: object = None
    may_pass: bool = field(default=False, compare=False)
    """Whether the tool broke (an exception, a timeout), so that the same call may succeed if it is
    tried again. Not for errors that are the tool's own answer."""

    def __post_init__(self) -> None:
        if not isinstance(self.content, str):
            raise TypeError(
                f"ToolOutput.content must be a str, got {self.content!r:.200}; return the value "
                "itself, or give it as structured= with its text as content="
            )
        if not isinstance(self.is_error, bool):
            raise TypeError(f"ToolOutput.is_error must be a bool, got {self.is_error!r:.200}")
        for each in self.attachments:
            if not isinstance(each, Image | File):
                raise TypeError(
                    f"ToolOutput.attachments must be of Image and File, got {each!r:.200}"
                )

    @classmethod
    def error(cls, content: str, *, may_pass: bool = False) -> ToolOutput:
        """An answer that tells the model what went wrong and what to do instead."""
        return cls(content=content, is_error=True, may_pass=may_pass)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolContext(Generic[Deps_co]):
    """What a running call knows. A parameter annotated with it receives it, unseen by the model."""

    deps: Deps_co
    """The dependencies of the agent that makes the call."""
    agent: str
    """The name of that agent."""
    run_id: str
    call_id: str
    caller: Caller = field(default=NOBODY, repr=False, compare=False)
    """The run that makes the call, for what a call may ask of it."""

    def progress(self, done: float, total: float | None = None, message: str = "") -> None:
        """Show how far the call is, as an event of the run (`ToolProgress`). The model never
        reads it. May be called from any thread, and as often as one likes.

        Args:
            done: how much is done, in any unit.
            total: how much there is in all, in the same unit; None: not known.
            message: what happens now.
        """
        self.caller.progress(done, total, message)


@runtime_checkable
class Tool(Protocol):
    """Something a model can call.

    `call` answers every mistake of the model, and every failure of the tool, with an `is_error`
    output; it raises only `CancelledError`. It may be called many times at once.
    """

    @property
    def spec(self) -> ToolSpec:
        """The pinned description; the same value at every read."""
        ...

    async def call(
        self, arguments: Mapping[str, object], context: ToolContext[object]
    ) -> ToolOutput:
        """Run the tool with arguments as the model gave them (parsed JSON, not validated)."""
        ...


def check_tool_name(name: str) -> None:
    """Raise `ToolDefinitionError` unless every provider accepts this tool name."""
    if not isinstance(name, str) or not _LEGAL_NAME.fullmatch(name):
        raise ToolDefinitionError(
            f"tool name {name!r} is not legal at every provider; "
            "use 1 to 64 of the characters a-z, A-Z, 0-9, '_' and '-'"
        )
