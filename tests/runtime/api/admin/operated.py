"""A server with keys: `root` steers it, `ann` and `bob` ask the model, each as a tenant."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import httpx2

from agentkit_runtime.api.admin import Sampler
from agentkit_runtime.api.caller import Caller, Role
from agentkit_runtime.api.failure import ApiError
from agentkit_runtime.governing.lifecycle import Lifecycle
from tests.runtime.api.serving import Served

RULES = "You are the clerk of a museum. Answer in one sentence, and be kind to everybody."


class Keys:
    """The bearer token is the tenant's name."""

    def authenticate(self, headers: Mapping[str, str]) -> Caller:
        name = headers.get("authorization", "").removeprefix("Bearer ")
        if name == "root":
            return Caller(tenant="root", roles=frozenset({"admin"}), key_id="key-root")
        if name == "ann-root":
            roles: frozenset[Role] = frozenset({"admin", "user"})
            return Caller(tenant="ann", roles=roles, key_id="key-ann-root")
        if name not in ("ann", "bob"):
            raise ApiError("no key, or an unknown one", status=401)
        return Caller(tenant=name, roles=frozenset({"user"}), key_id=f"key-{name}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Operated:
    """The server, and one client for each key."""

    served: Served
    lifecycle: Lifecycle
    sampler: Sampler
    root: httpx2.Client
    ann: httpx2.Client
    bob: httpx2.Client

    def ask(
        self, client: httpx2.Client, text: str = "hello", *, with_rules: bool = True, **headers: str
    ) -> dict[str, object]:
        """A chat, usually with the rules in front; its usage."""
        asked = messages(text) if with_rules else messages(text)[1:]
        answer = client.post(
            "/v1/chat/completions",
            json={"model": "scripted", "messages": asked},
            headers={name.replace("_", "-"): value for name, value in headers.items()},
        )
        assert answer.status_code == 200, answer.text
        usage: dict[str, object] = answer.json()["usage"]
        return usage

    def cached(self, client: httpx2.Client, text: str = "hello") -> int:
        """Tokens of that chat that are read from the cache."""
        details = self.ask(client, text)["prompt_tokens_details"]
        assert isinstance(details, dict)
        return int(details["cached_tokens"])

    def flush(self) -> None:
        """Forget everything."""
        assert self.root.post("/admin/v1/flush", json={"all": True}).status_code == 200


def messages(text: str | None = None) -> list[dict[str, str]]:
    """The rules, and perhaps a question."""
    asked = [] if text is None else [{"role": "user", "content": text}]
    return [{"role": "system", "content": RULES}, *asked]
