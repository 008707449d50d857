"""The application around a service that cannot serve."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import httpx2
import pytest

from agentkit_runtime.api import create_app
from agentkit_runtime.errors import EngineStopped, OutOfSlots, RequestRejected

BODY = {"model": "stub", "messages": [{"role": "user", "content": "hi"}]}


class FailingService:
    """Fails every request with the same error."""

    model_label = "stub"
    fingerprint = "fp_0"
    healthy = False

    def __init__(self, error: Exception) -> None:
        self._error = error

    async def open_many(self, request: object, n: int) -> None:
        raise self._error


def client(error: Exception | None = None, **options: object) -> httpx2.AsyncClient:
    app = create_app(FailingService(error or RuntimeError("ours")), **options)  # type: ignore[arg-type]
    transport = httpx2.ASGITransport(app=app, raise_app_exceptions=False)
    return httpx2.AsyncClient(transport=transport, base_url="http://test")


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    ("error", "status", "param", "kind"),
    [
        (RequestRejected("no", field="tools"), 400, "tools", "invalid_request_error"),
        (RequestRejected("no", field="response_schema"), 400, "response_format", None),
        (EngineStopped("closed"), 503, None, "server_error"),
        (OutOfSlots("full"), 500, None, "server_error"),
        (RuntimeError("a secret of ours"), 500, None, "server_error"),
    ],
)
async def test_what_the_service_raises_becomes_a_status_and_a_body(
    error: Exception, status: int, param: str | None, kind: str | None, stream: bool
) -> None:
    async with client(error) as http:
        response = await http.post("/v1/chat/completions", json={**BODY, "stream": stream})

    found = response.json()["error"]
    assert (response.status_code, found["param"]) == (status, param)
    assert kind is None or found["type"] == kind
    assert "secret" not in response.text


@pytest.mark.parametrize(
    ("field", "param"),
    [
        ("messages[2].content", "messages[2].content"),
        ("messages[2].tool_calls[0].name", "messages[2].tool_calls[0].function.name"),
        ("messages[2].tool_calls[0].id", "messages[2].tool_calls[0].id"),
        ("tools", "tools"),
        ("tools[1].parameters", "tools[1].function.parameters"),
        ("allowed_tools", "tool_choice"),
        ("prompt", "messages"),
        (None, None),
    ],
)
async def test_a_field_is_named_as_it_is_called_in_the_body(
    field: str | None, param: str | None
) -> None:
    async with client(RequestRejected("no", field=field)) as http:
        response = await http.post("/v1/chat/completions", json=BODY)

    assert response.json()["error"]["param"] == param


async def test_health_says_when_the_engine_has_stopped() -> None:
    async with client() as http:
        response = await http.get("/health")

    assert (response.status_code, response.json()["status"]) == (503, "stopped")


async def test_a_model_can_have_several_names() -> None:
    async with client(model_ids=("first", "second")) as http:
        listed = (await http.get("/v1/models")).json()["data"]
        wrong = await http.post("/v1/chat/completions", json=BODY)
        right = await http.post("/v1/chat/completions", json={**BODY, "model": "second"})

    assert [model["id"] for model in listed] == ["first", "second"]
    assert (wrong.status_code, right.status_code) == (404, 500)


@pytest.mark.parametrize("path", ["/chat/completions", "/v1/v1/messages", "/"])
async def test_at_a_path_that_is_not_there_one_learns_which_base_urls_clients_want(
    path: str,
) -> None:
    async with client() as http:
        response = await http.post(path, json=BODY)

    error = response.json()["error"]
    assert (response.status_code, error["code"]) == (404, "path_not_found")
    assert error["message"].startswith(f"there is nothing at POST {path}: the base URL of OpenAI's")


async def test_a_method_that_a_path_does_not_take_is_named() -> None:
    async with client() as http:
        response = await http.get("/v1/chat/completions")

    assert (response.status_code, response.headers["allow"]) == (405, "POST")
    message = response.json()["error"]["message"]
    assert message == "/v1/chat/completions does not take GET"


async def test_another_sites_page_cannot_ask_without_permission() -> None:
    """A browser sends `text/plain` to any address; JSON only after asking the server."""
    content = b'{"model": "stub", "messages": [{"role": "user", "content": "hi"}]}'
    async with client() as http:
        response = await http.post(
            "/v1/chat/completions", content=content, headers={"content-type": "text/plain"}
        )

    assert response.status_code == 400


async def test_the_schema_names_both_kinds_of_answer() -> None:
    async with client() as http:
        schema = (await http.get("/openapi.json")).json()

    answers = schema["paths"]["/v1/chat/completions"]["post"]["responses"]
    assert set(answers["200"]["content"]) == {"application/json", "text/event-stream"}
    assert "400" in answers


@pytest.mark.parametrize("is_chunked", [True, False])
async def test_a_body_that_is_too_large_is_refused_in_openais_shape(is_chunked: bool) -> None:
    body = json.dumps(BODY | {"user": "x" * 200}).encode()

    async def chunks() -> AsyncIterator[bytes]:
        for start in range(0, len(body), 64):
            yield body[start : start + 64]

    async with client(RequestRejected("reached"), max_body_bytes=len(body) - 1) as http:
        response = await http.post(
            "/v1/chat/completions",
            content=chunks() if is_chunked else body,
            headers={"content-type": "application/json"},
        )
    error = response.json()["error"]
    assert (response.status_code, error["code"]) == (413, "request_too_large")
    assert (error["type"], error["param"]) == ("invalid_request_error", None)
    assert str(len(body) - 1) in error["message"]


async def test_a_body_of_exactly_the_limit_is_read() -> None:
    body = json.dumps(BODY).encode()
    async with client(RequestRejected("reached"), max_body_bytes=len(body)) as http:
        response = await http.post(
            "/v1/chat/completions", content=body, headers={"content-type": "application/json"}
        )
    assert response.json()["error"]["message"] == "reached"


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages", "/v1/responses"])
@pytest.mark.parametrize(
    ("body", "kind", "said"),
    [
        ("{", "application/json", "valid JSON"),
        ("[]", "application/json", "JSON object"),
        ("", "application/json", "JSON object"),
        (json.dumps(BODY), "application/x-www-form-urlencoded", "Content-Type: application/json"),
    ],
)
async def test_what_is_no_json_object_is_told_so_and_no_field_is_named(
    path: str, body: str, kind: str, said: str
) -> None:
    async with client() as http:
        answer = await http.post(path, content=body, headers={"Content-Type": kind})

    assert answer.status_code == 400
    error = answer.json()["error"]
    assert said in error["message"]
    assert error.get("param") is None
