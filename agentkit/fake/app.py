"""The routes of the fake provider: which API a request speaks, and what it does before a reply."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from agentkit.caching.policy import Provider, plain_name
from agentkit.caching.simulate import Refused
from agentkit.errors import UnknownModel
from agentkit.fake.anthropic.answer import Messages
from agentkit.fake.anthropic.parse import size_of
from agentkit.fake.api import Api, HttpCall
from agentkit.fake.exchange import Exchange, Receive, Send, error_response, send_json
from agentkit.fake.fields import JsonObject, Problem
from agentkit.fake.gemini.answer import Gemini
from agentkit.fake.gemini.parse import request_of
from agentkit.fake.incoming import body_of, chat_provider, key_of
from agentkit.fake.ledger import Record
from agentkit.fake.models import model_list
from agentkit.fake.openai.chat_answer import Chat
from agentkit.fake.openai.responses_answer import Responses

if TYPE_CHECKING:
    from agentkit.fake.provider import FakeProvider


COMPATIBLE = (
    Provider.VLLM,
    Provider.SGLANG,
    Provider.TENSORRT_LLM,
    Provider.XAI,
    Provider.MISTRAL,
    Provider.GROQ,
    Provider.MOONSHOT,
)
"""Providers with a Chat API of OpenAI's kind, each under its own path, e.g. `/vllm/v1`."""


def routes(fake: FakeProvider) -> list[BaseRoute]:
    """Return all routes."""
    desk = Desk(fake)
    chat = ("/v1/chat/completions", "/chat/completions", *_under("openrouter"))
    return [
        Route("/v1/messages", desk.messages, methods=["POST"]),
        Route("/v1/messages/count_tokens", desk.count_tokens, methods=["POST"]),
        Route("/v1/responses", desk.responses, methods=["POST"]),
        *(Route(path, desk.chat, methods=["POST"]) for path in chat),
        *(
            Route(path, desk.chat_of(provider), methods=["POST"])
            for provider in (Provider.DEEPSEEK, *COMPATIBLE)
            for path in _under(provider.value)
        ),
        Route("/v1/models", desk.models),
        *(route for version in ("/v1", "/v1beta") for route in _gemini(desk, version)),
        Route("/__ledger__", desk.ledger),
    ]


def _gemini(desk: Desk, version: str) -> list[Route]:
    contents = f"{version}/cachedContents"
    return [
        Route(f"{version}/models/{{action:path}}", desk.generate, methods=["POST"]),
        Route(contents, desk.contents, methods=["GET", "POST"]),
        Route(f"{contents}/{{name}}", desk.content, methods=["GET", "PATCH", "DELETE"]),
    ]


class Desk:
    """Takes requests in."""

    def __init__(self, fake: FakeProvider) -> None:
        self._fake = fake
        self._gemini = Gemini(fake.contents)
        self._responses = Responses()

    async def messages(self, request: Request) -> Answering:
        """Anthropic Messages."""
        return await self._answer(request, Messages(), Provider.ANTHROPIC)

    async def responses(self, request: Request) -> Answering:
        """OpenAI Responses."""
        return await self._answer(request, self._responses, Provider.OPENAI)

    async def chat(self, request: Request) -> Answering:
        """Chat completions: the model's name says whose."""
        body = await request.body()
        provider = chat_provider(body)
        return await self._answer(request, Chat(provider), provider)

    def chat_of(self, provider: Provider) -> Callable[[Request], Awaitable[Answering]]:
        """Chat completions of one provider."""

        async def chat(request: Request) -> Answering:
            return await self._answer(request, Chat(provider), provider)

        return chat

    async def generate(self, request: Request) -> Answering:
        """Gemini's `models/{model}:{action}`."""
        model, _, action = request.path_params["action"].rpartition(":")
        if action == "countTokens":
            return await self._plain(request, self._gemini, lambda call: _count_gemini(call, model))
        if action not in ("generateContent", "streamGenerateContent"):
            return _Json(
                404, self._gemini.error(Problem(f"no method {action!r}", status=404), ""), {}
            )
        return await self._answer(request, self._gemini, Provider.GEMINI, model=model)

    async def count_tokens(self, request: Request) -> Answering:
        """Anthropic's token count; nothing is cached by it."""

        def count(call: HttpCall) -> JsonObject:
            return {"input_tokens": size_of(Messages().parse(call))}

        return await self._plain(request, Messages(), count, {"max_tokens": 1})

    async def contents(self, request: Request) -> Answering:
        """Gemini's cached contents."""
        contents, now = self._fake.contents, self._fake.time.now()
        if request.method == "POST":
            return await self._plain(request, self._gemini, lambda call: contents.create(call, now))
        return await self._plain(request, self._gemini, lambda call: contents.all(call.tenant))

    async def content(self, request: Request) -> Answering:
        """One of Gemini's cached contents."""
        contents, now = self._fake.contents, self._fake.time.now()
        name = f"cachedContents/{request.path_params['name']}"
        steps: dict[str, Callable[[HttpCall], JsonObject]] = {
            "GET": lambda call: contents.get(name, call.tenant),
            "PATCH": lambda call: contents.update(name, call, now),
            "DELETE": lambda call: contents.delete(name, call.tenant),
        }
        return await self._plain(request, self._gemini, steps[request.method])

    async def models(self, request: Request) -> Response:
        """The models whose prices are known, of OpenAI or of Anthropic."""
        provider = Provider.OPENAI
        if "anthropic-version" in request.headers:
            provider = Provider.ANTHROPIC
        return JSONResponse(model_list(provider))

    async def ledger(self, request: Request) -> Response:
        """What was served: JSON, or a table with `?format=text`."""
        if request.query_params.get("format") == "text":
            return PlainTextResponse(self._fake.report() + "\n")
        return JSONResponse(self._fake.ledger())

    async def _answer(
        self, request: Request, api: Api, provider: Provider, *, model: str = ""
    ) -> Answering:
        data = await request.body()
        fake = self._fake
        record = Record(
            at=fake.time.now(),
            provider=provider,
            api=api.name,
            request_id=fake.ids.new(api.id_prefix),
            organization="",
            body=data,
            model=plain_name(model),
        )
        fake.records.append(record)
        try:
            call = self._call(request, data, model=model)
            record.organization = call.tenant.organization
            prompt = api.parse(call)
            name = prompt.request.identity.model
            # Names of self-hosted models are paths and hub ids; nothing may be cut off.
            record.model = name if provider in COMPATIBLE else plain_name(name)
            record.terms = prompt.request.terms
            with fake.lock:
                flight = fake.caches.of(provider).begin(prompt.request)
        except Problem as problem:
            record.close(problem.status, None, problem.message)
            return _Json(*error_response(api, problem, record.request_id))
        except UnknownModel as error:
            record.close(404, None, str(error))
            missing = Problem(f"model: {record.model} ({error})", status=404, param="model")
            return _Json(*error_response(api, missing, record.request_id))
        if isinstance(flight, Refused):
            record.close(flight.status, flight)
            refusal = Problem(flight.message, status=flight.status)
            return _Json(*error_response(api, refusal, record.request_id))
        return Exchange(fake, api, prompt, flight, record)

    async def _plain(
        self,
        request: Request,
        api: Api,
        step: Callable[[HttpCall], JsonObject],
        defaults: JsonObject | None = None,
    ) -> Answering:
        """Answer a request that the model has no part in."""
        try:
            call = self._call(request, await request.body() or b"{}", defaults=defaults)
            with self._fake.lock:
                return _Json(200, step(call), {})
        except Problem as problem:
            return _Json(*error_response(api, problem, self._fake.ids.new("req_")))
        except UnknownModel as error:
            missing = Problem(str(error), status=404)
            return _Json(*error_response(api, missing, self._fake.ids.new("req_")))

    def _call(
        self, request: Request, data: bytes, *, model: str = "", defaults: JsonObject | None = None
    ) -> HttpCall:
        key = key_of(request)
        if not key:
            raise Problem("no API key was given; any text will do", status=401)
        return HttpCall(
            path=request.url.path,
            headers=dict(request.headers),
            body={**(defaults or {}), **body_of(data)},
            tenant=self._fake.tenant_of(key),
            model=plain_name(model),
        )


class _Json:
    """A finished response."""

    def __init__(self, status: int, body: JsonObject, headers: dict[str, str]) -> None:
        self._status, self._body, self._headers = status, body, headers

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        await send_json(send, self._status, self._body, self._headers)


Answering = Exchange | _Json


def _under(prefix: str) -> tuple[str, str]:
    return f"/{prefix}/v1/chat/completions", f"/{prefix}/chat/completions"


def _count_gemini(call: HttpCall, model: str) -> JsonObject:
    inner = call.body.get("generateContentRequest", call.body)
    named = HttpCall(
        path=call.path, headers=call.headers, body=inner, tenant=call.tenant, model=model
    )
    request = request_of(named, tuple(inner.get("contents") or ()))
    return {"totalTokens": sum(block.n_tokens for block in request.blocks)}
