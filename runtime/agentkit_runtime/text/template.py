"""Chat templates: the Jinja source that ships with a model, rendered in a sandbox without a clock.

The output is a pure function of the messages, the tools and the source: the same conversation gives
the same bytes on any day and in any process.
"""

from __future__ import annotations

import datetime
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Any, TypeAlias

import jinja2
import jinja2.ext
import jinja2.meta
import jinja2.nodes
import jinja2.parser
import jinja2.runtime
import jinja2.sandbox

from agentkit_runtime.errors import RequestRejected, UnsupportedModel
from agentkit_runtime.text.template_json import to_json
from agentkit_runtime.text.template_probe import TemplateTraits, probe

TemplateMessage: TypeAlias = Mapping[str, object]
"""A message as templates know it: `role`, `content`, `tool_calls`, `tool_call_id`."""

FIXED_DAY = datetime.date(2024, 7, 26)
"""What `strftime_now` says unless a day is injected: the day that Llama 3's own templates fall back
to. A real clock would change the prompt, and with it every cached prefix, each midnight."""


TEMPLATE_OPTIONS = ("enable_thinking", "thinking", "reasoning_effort")
"""Variables that a request may set, where the source looks at them: Qwen3, GLM and SmolLM3 know the
first, DeepSeek V3.1 the second, gpt-oss the third."""


class ChatTemplate:
    """A compiled template. Rendering is thread-safe.

    `bos_text` and `eos_text` are what the source knows as `bos_token` and `eos_token`, `today` is
    what `strftime_now` says. Raises `UnsupportedModel` if the source is not a Jinja template.
    """

    def __init__(
        self,
        source: str,
        *,
        bos_text: str = "",
        eos_text: str = "",
        today: datetime.date = FIXED_DAY,
        switches: Mapping[str, object] | None = None,
    ) -> None:
        self.source = source
        self.switches = dict(switches or {})
        """Further variables that the source knows, such as `preserve_thinking`."""
        self._constants = {"bos_token": bos_text, "eos_token": eos_text}
        self._today = today
        environment = _environment()
        try:
            # Globals do not count as undeclared, so they come after this.
            self._names = jinja2.meta.find_undeclared_variables(environment.parse(source))
            environment.globals["raise_exception"] = _raise_exception
            environment.globals["strftime_now"] = today.strftime
            self._template = environment.from_string(source)
        except jinja2.TemplateError as error:
            raise UnsupportedModel(f"the chat template cannot be compiled: {error}") from error

    def render(
        self,
        messages: Sequence[TemplateMessage],
        *,
        tools: Sequence[Mapping[str, object]] | None = None,
        add_generation_prompt: bool = True,
        options: Mapping[str, object] = MappingProxyType({}),
    ) -> str:
        """The prompt text. `RequestRejected` if the template refuses the messages.

        `options` are variables of this request alone.
        """
        try:
            return self._template.render(
                messages=messages,
                tools=tools,
                add_generation_prompt=add_generation_prompt,
                **{**self._constants, **self.switches, **options},
            )
        except _RENDERING_FAILS as error:
            raise RequestRejected(
                f"the model's chat template cannot render these messages: {error}",
                field="messages",
            ) from error

    @property
    def uses_clock(self) -> bool:
        """Whether the source asks for the date; it gets the fixed one."""
        return "strftime_now" in self._names

    def mentions(self, names: Iterable[str]) -> bool:
        """Whether the source looks at one of these variables."""
        return not self._names.isdisjoint(names)

    def with_switches(self, switches: Mapping[str, object]) -> ChatTemplate:
        """The same template with more variables set."""
        return ChatTemplate(
            self.source,
            bos_text=self._constants["bos_token"],
            eos_text=self._constants["eos_token"],
            today=self._today,
            switches={**self.switches, **switches},
        )

    @property
    def mentions_tools(self) -> bool:
        """Whether the source looks at `tools` at all."""
        return "tools" in self._names

    @cached_property
    def traits(self) -> TemplateTraits:
        """What the template can do, found out by rendering samples."""
        return probe(self)

    @cached_property
    def fingerprint(self) -> str:
        """Hex SHA-256 over everything that decides the output."""
        parts: list[object] = [self.source, *self._constants.values(), self._today.isoformat()]
        if self.switches:
            parts.append(self.switches)
        return hashlib.sha256(
            json.dumps(["agentkit-template-v1", *parts], sort_keys=True).encode()
        ).hexdigest()


_RENDERING_FAILS = (
    jinja2.TemplateError,
    TypeError,
    ValueError,
    LookupError,
    ArithmeticError,
    RecursionError,
)


class _Environment(jinja2.sandbox.ImmutableSandboxedEnvironment):
    """The sandbox, with short cuts for what a template asks most often, once for each message."""

    def getattr(self, obj: Any, attribute: str) -> Any:
        """Fields of messages, and the public state of a loop; everything else as ever."""
        if type(obj) is dict:
            if attribute in obj and not hasattr(dict, attribute):
                return obj[attribute]
        elif type(obj) is jinja2.runtime.LoopContext and attribute in _LOOP_STATE:
            return getattr(obj, attribute)
        return super().getattr(obj, attribute)


_LOOP_STATE = frozenset({"first", "last", "index", "index0", "length", "previtem", "nextitem"})


def _environment() -> jinja2.sandbox.ImmutableSandboxedEnvironment:
    environment = _Environment(
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=[_GenerationBlocks, jinja2.ext.loopcontrols],
    )
    environment.filters["tojson"] = to_json
    return environment


class _GenerationBlocks(jinja2.ext.Extension):
    """`{% generation %}` marks the assistant's tokens for training; here it is only its body."""

    tags = {"generation"}  # noqa: RUF012 (Jinja's own interface)

    def parse(self, parser: jinja2.parser.Parser) -> list[jinja2.nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _raise_exception(message: str) -> str:
    raise jinja2.TemplateRuntimeError(message)
