"""Bodies of the admin API, as pydantic models. Unknown fields are refused: a misspelt `dry_run`
must not prune."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from agentkit_runtime.api.openai.request import ChatCompletionBody, Message, ToolBody
from agentkit_runtime.api.readable import require_readable
from agentkit_runtime.chat import DEFAULT_TENANT
from agentkit_runtime.kv.hints import MAX_EXPECTED_S

Label = Annotated[str, Field(min_length=1, max_length=256)]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
ShortSeconds = Annotated[float, Field(ge=0, le=MAX_EXPECTED_S, allow_inf_nan=False)]


class AdminModel(BaseModel):
    """Strict types, nothing but the known fields, and text that is text."""

    model_config = ConfigDict(extra="forbid", strict=True)

    @model_validator(mode="before")
    @classmethod
    def _refuse_unreadable(cls, value: object) -> object:
        require_readable(value)
        return value


class Prefix(AdminModel):
    """What requests begin with: messages and tools, as in a chat completion."""

    messages: Annotated[list[Message], Field(min_length=1)]
    tools: list[ToolBody] | None = None
    chat_template_kwargs: dict[str, bool | str] | None = None


class PinnedPrefix(Prefix):
    """A prefix, and how it is kept."""

    ttl_s: Seconds | None = None
    name: Label | None = None


class OwnPrewarm(PinnedPrefix):
    """`POST /v1/agentkit/prewarm`: compute a prefix of one's own, and perhaps pin it."""

    pin: bool = False

    @model_validator(mode="after")
    def _pin_or_not(self) -> Self:
        if not self.pin and (self.ttl_s is not None or self.name is not None):
            raise ValueError("ttl_s and name are a pin's: they do nothing without pin: true")
        return self


class Prewarm(OwnPrewarm):
    """`POST /admin/v1/prewarm`: the same for any tenant."""

    tenant: Label = DEFAULT_TENANT


class AddPin(PinnedPrefix):
    """`POST /admin/v1/pins`."""

    tenant: Label = DEFAULT_TENANT


class Explain(ChatCompletionBody):
    """`POST /v1/agentkit/explain`: the body of a chat completion, as it is or would be sent."""

    model: str = ""


class AdminExplain(Explain):
    """`POST /admin/v1/explain`: the same for any tenant."""

    tenant: Label = DEFAULT_TENANT


class Prune(AdminModel):
    """What to forget, and whether only to look. `by` says which of the other fields counts."""

    by: Literal["tenant", "session", "tag", "pin", "namespace", "prefix"]
    dry_run: bool = False
    session: Label | None = None
    tag: Label | None = None
    pin: Label | None = None
    namespace: Annotated[str, Field(pattern=r"^([0-9a-f]{2}){1,64}$")] | None = None
    messages: Annotated[list[Message], Field(min_length=1)] | None = None
    tools: list[ToolBody] | None = None

    @model_validator(mode="after")
    def _just_what_is_needed(self) -> Self:
        needed = {"tenant": "", "prefix": "messages"}.get(self.by, self.by)
        if needed and getattr(self, needed) is None:
            raise ValueError(f"{needed} is missing: by is {self.by!r}")
        for other in ("session", "tag", "pin", "namespace", "messages"):
            if other != needed and getattr(self, other) is not None:
                raise ValueError(f"{other} does nothing here: by is {self.by!r}")
        if self.tools is not None and self.by != "prefix":
            raise ValueError(f"tools do nothing here: by is {self.by!r}")
        return self


class AdminPrune(Prune):
    """`POST /admin/v1/prune`: for any tenant."""

    tenant: Label = DEFAULT_TENANT


class OwnPrune(Prune):
    """`POST /v1/agentkit/prune`: of one's own."""

    by: Literal["tenant", "session", "tag", "pin", "prefix"]


class Branch(AdminModel):
    """A node as `GET /admin/v1/tree` shows it: its `id`, the sum of its `start` and `tokens`."""

    node: Annotated[int, Field(ge=0)]
    end: Annotated[int, Field(ge=1)]
    tenant: Label = DEFAULT_TENANT


class PinBranch(Branch):
    """`POST /admin/v1/tree/pin`."""

    ttl_s: Seconds | None = None
    name: Label | None = None


class PruneBranch(Branch):
    """`POST /admin/v1/tree/prune`."""

    dry_run: bool = False


class Flush(AdminModel):
    """`POST /admin/v1/flush`: a tenant, or with `all` everything, published prefixes included.

    With `unknown` the tenant may be one that has no key: for what somebody has left behind.
    """

    tenant: Label | None = None
    all: bool = False
    unknown: bool = False

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if self.all == (self.tenant is not None):
            raise ValueError("say either tenant or all: true")
        if self.all and self.unknown:
            raise ValueError("unknown: true is for a tenant: with all it does nothing")
        return self


class Hint(AdminModel):
    """What is expected: a session `waits` (`seconds`), is `done`, or `tags` are `likely_next`."""

    kind: Literal["waits", "done", "likely_next"]
    session: Label | None = None
    tags: Annotated[list[Label], Field(min_length=1, max_length=64)] | None = None
    seconds: ShortSeconds | None = None

    @model_validator(mode="after")
    def _just_what_is_needed(self) -> Self:
        needed = {
            "waits": {"session", "seconds"},
            "done": {"session"},
            "likely_next": {"tags", "seconds"},
        }[self.kind]
        given = {name for name in ("session", "tags", "seconds") if getattr(self, name) is not None}
        for name in sorted(needed - given):
            raise ValueError(f"{name} is missing: kind is {self.kind!r}")
        for name in sorted(given - needed):
            raise ValueError(f"{name} does nothing here: kind is {self.kind!r}")
        return self


class AdminHint(Hint):
    """`POST /admin/v1/hints`: for any tenant."""

    tenant: Label = DEFAULT_TENANT


class RotateKey(AdminModel):
    """`POST /admin/v1/namespace-key`: the new key, or none for a random one."""

    key: str | None = Field(default=None, pattern=r"^[0-9a-f]{64}$", repr=False)


class Config(AdminModel):
    """`PATCH /admin/v1/config`. What is left out stays as it is."""

    tenant_weights: dict[Label, Annotated[float, Field(gt=0)]] | None = None
