"""What gates and keys say is told in Anthropic's shape, and the SDK tries again what it should."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import anthropic
import pytest

from agentkit_runtime.api import create_app
from agentkit_runtime.api.asked import Asked, OpenGate, Ticket
from agentkit_runtime.api.caller import Caller
from agentkit_runtime.api.failure import ApiError
from tests.runtime.api.anthropic.cases import HELLO, user
from tests.runtime.api.serving import Served, serving_app

ASKED = {"model": "scripted", "max_tokens": 9, "messages": [user("hello")]}


class Moody:
    """A gate and an authenticator that say no as often as they are told to."""

    def __init__(self) -> None:
        self.noes: list[ApiError] = []
        self.stranger: ApiError | None = None
        self.n_asked = 0

    def enter(self, asked: Asked) -> Ticket:
        self.n_asked += 1
        if self.noes:
            raise self.noes.pop(0)
        return OpenGate().enter(asked)

    def authenticate(self, headers: Mapping[str, str]) -> Caller:
        if self.stranger is not None:
            raise self.stranger
        known = headers["authorization"] == "Bearer user"
        return Caller(roles=frozenset({"user"}) if known else frozenset())


@pytest.fixture(scope="module")
def moody_url(served: Served) -> Iterator[tuple[Moody, str]]:
    moody = Moody()
    app = create_app(served.service, gate=moody, authenticator=moody)
    with serving_app(app) as (url, _):
        yield moody, url


@pytest.mark.parametrize(
    ("status", "raised", "kind"),
    [
        (429, anthropic.RateLimitError, "rate_limit_error"),
        (503, anthropic.InternalServerError, "overloaded_error"),
        (529, anthropic.InternalServerError, "overloaded_error"),
        (409, anthropic.ConflictError, "conflict_error"),
    ],
)
def test_a_gate_that_says_no_is_an_error_of_its_class(
    moody_url: tuple[Moody, str], status: int, raised: type[anthropic.APIStatusError], kind: str
) -> None:
    moody, url = moody_url
    moody.noes = [ApiError("not now", status=status, retry_after_s=2.2)]
    with (
        anthropic.Anthropic(base_url=url, api_key="user", max_retries=0) as client,
        pytest.raises(raised) as refused,
    ):
        client.messages.create(**ASKED)  # type: ignore[call-overload]

    body = refused.value.body
    assert isinstance(body, dict)
    assert body["error"] == {"type": kind, "message": "not now"}
    assert refused.value.response.headers["retry-after"] == "3"


def test_the_sdk_tries_again_what_it_should(
    moody_url: tuple[Moody, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("anthropic._base_client.INITIAL_RETRY_DELAY", 0.001)
    moody, url = moody_url
    moody.noes = [ApiError("full", status=429), ApiError("full", status=529)]
    before = moody.n_asked
    with anthropic.Anthropic(base_url=url, api_key="user", max_retries=2) as client:
        message = client.messages.create(**ASKED)  # type: ignore[call-overload]

    assert message.content[0].text == HELLO
    assert moody.n_asked - before == 3


def test_a_stranger_and_a_key_without_the_role_are_told_apart(
    moody_url: tuple[Moody, str],
) -> None:
    moody, url = moody_url
    with anthropic.Anthropic(base_url=url, api_key="other", max_retries=0) as client:
        for ask in (
            lambda: client.messages.create(**ASKED),  # type: ignore[call-overload]
            lambda: client.messages.count_tokens(model="scripted", messages=[user("hello")]),
            lambda: client.models.list(),
        ):
            with pytest.raises(anthropic.PermissionDeniedError):
                ask()
        moody.stranger = ApiError("who are you?", status=401)
        try:
            with pytest.raises(anthropic.AuthenticationError) as unknown:
                client.messages.create(**ASKED)  # type: ignore[call-overload]
        finally:
            moody.stranger = None

    body = unknown.value.body
    assert isinstance(body, dict)
    assert body["error"]["type"] == "authentication_error"
