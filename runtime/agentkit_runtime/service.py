"""Chat on top of the engine: messages in, chat events out.

`prepare` is the way in (render, ids, grammar, namespace), `reply.ReplyAssembler` the way out (tool
calls, finish reason), `token_memory` closes the circle: a reply's ids are used again when it comes
back as history. Nothing here knows HTTP, and nothing here touches the tree or the pool.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import logging
import secrets
from collections.abc import AsyncGenerator, Mapping
from concurrent.futures import Future
from contextlib import suppress
from typing import TYPE_CHECKING

from agentkit_runtime.chat import ChatEvent, ChatRequest
from agentkit_runtime.errors import EngineStopped, PromptTooLong, RequestRejected
from agentkit_runtime.generation.samples import samples
from agentkit_runtime.kv.namespace import NamespaceKeys
from agentkit_runtime.marks import Marks
from agentkit_runtime.prefixes import Prefixes
from agentkit_runtime.prepared import Prepared, callable_names, ids_that_read
from agentkit_runtime.prompt import Prompt, PromptBuilder
from agentkit_runtime.reply import ChatStream, ReplyAssembler
from agentkit_runtime.roots import Roots
from agentkit_runtime.text.grammar import GrammarCompiler
from agentkit_runtime.text.reasoning import ReasoningParser, opens_reasoning, reasoning_tags
from agentkit_runtime.text.render import Renderer
from agentkit_runtime.text.request_text import content_bytes, tool_texts
from agentkit_runtime.text.rewrites import find_rewrites
from agentkit_runtime.text.stream import GenerationText
from agentkit_runtime.text.template import TEMPLATE_OPTIONS
from agentkit_runtime.text.toolcalls import ToolCallParser
from agentkit_runtime.token_memory import TokenMemory
from agentkit_runtime.turn_losses import Reply, TemplateReport
from agentkit_runtime.types import FinishReason, GenerateRequest, Grammar

if TYPE_CHECKING:
    from agentkit_runtime.capacity.memory import PoolSize
    from agentkit_runtime.core import CoreStats, EngineCore
    from agentkit_runtime.load import LoadedModel
    from agentkit_runtime.text.tokenizer import Tokenizer


MIN_NAMESPACE_KEY_BYTES = 16
"""Shorter secrets can be guessed."""

_log = logging.getLogger(__name__)


class ChatService:
    """Serves chat requests with one loaded model; shared by all front ends of a process.

    Usable from any number of event loops and threads at once.
    """

    def __init__(
        self,
        loaded: LoadedModel,
        *,
        namespace_key: bytes | None = None,
        memory: TokenMemory | None = None,
    ) -> None:
        """Build the text side around `loaded`.

        Args:
            loaded: the model; its engine must be started.
            namespace_key: secret that separates tenants, at least `MIN_NAMESPACE_KEY_BYTES` long;
                by default random for each service.
            memory: where generated ids are remembered.

        Raises:
            ValueError: the key is too short.
        """
        if namespace_key is None:
            namespace_key = secrets.token_bytes(32)
        if len(namespace_key) < MIN_NAMESPACE_KEY_BYTES:
            raise ValueError(
                f"namespace_key has {len(namespace_key)} bytes, and at least "
                f"{MIN_NAMESPACE_KEY_BYTES} are needed; use secrets.token_bytes(32), "
                "or None for a random one"
            )
        self._loaded = loaded
        self._roots = Roots(NamespaceKeys(namespace_key), loaded.identity)
        self._memory = TokenMemory() if memory is None else memory
        renderer = Renderer(loaded.tokenizer, loaded.template)
        self._prompts = PromptBuilder(renderer, self._memory)
        self._format = renderer.tool_format
        self._tags = reasoning_tags(loaded.template.source)
        self._rewrites = find_rewrites(loaded.template)
        for rewrite in self._rewrites:
            _log.info("%s, chat template: %s", loaded.label, rewrite.detail)
        self._compiler = GrammarCompiler(loaded.tokenizer)
        self._numbers = itertools.count(1)
        self.prefixes = Prefixes(
            engine=loaded.engine,
            tokenizer=loaded.tokenizer,
            builder=self._prompts,
            roots=self._roots,
            next_id=self._engine_id,
        )
        """Pre-warming, pins, pruning, hints."""
        self.marks = Marks(engine=loaded.engine, builder=self._prompts, roots=self._roots)
        """Beginnings that requests mark to be kept."""

    @property
    def model_label(self) -> str:
        """The model's name."""
        return self._loaded.label

    @property
    def tokenizer(self) -> Tokenizer:
        """The model's tokenizer. Its calls block; long texts belong into a thread."""
        return self._loaded.tokenizer

    @property
    def thinks(self) -> bool:
        """Whether the model's family thinks before it answers."""
        return self._tags is not None

    def template_has(self, option: str) -> bool:
        """Whether requests can set this one of `text.template.TEMPLATE_OPTIONS`."""
        return option in TEMPLATE_OPTIONS and self._loaded.template.mentions([option])

    @property
    def fingerprint(self) -> str:
        """Names weights, dtypes, tokenizer and template: what a seeded answer depends on."""
        return f"fp_{hashlib.sha256(repr(self._loaded.identity).encode()).hexdigest()[:16]}"

    @property
    def context_tokens(self) -> int:
        """The most tokens of a prompt and its answer together."""
        return min(self._loaded.config.max_position, self.stats().total_slots)

    def template_report(self) -> TemplateReport:
        """What the chat template says otherwise later, and what that has cost so far."""
        return TemplateReport(
            rewrites=self._rewrites,
            switches=self._loaded.template.switches,
            losses=self._prompts.losses.stats,
        )

    @property
    def pool(self) -> PoolSize | None:
        """How large the KV pool is, and why; None where nobody measured."""
        return self._loaded.pool

    @property
    def healthy(self) -> bool:
        """Whether the engine takes requests."""
        return self._loaded.engine.alive

    def stats(self) -> CoreStats:
        """The engine's numbers after its last step."""
        return self._loaded.engine.stats()

    def close(self) -> None:
        """Stop the engine; replies that are still running end with an error. Idempotent."""
        self._loaded.engine.close()

    def set_tenant_terms(
        self, *, weights: Mapping[str, float], pin_quotas: Mapping[str, int]
    ) -> None:
        """What tenants have of their own from the next step on; others have what options say.

        Args:
            weights: shares of computed tokens (`SchedulerOptions.tenant_weights`).
            pin_quotas: tokens that a tenant may pin.
        """

        def steer(core: EngineCore) -> None:
            core.scheduler.set_tenant_weights(weights)
            core.cache.set_pin_quotas(pin_quotas)

        with suppress(EngineStopped):
            self._loaded.engine.call(steer)

    def rotate_namespace_key(self, key: bytes) -> None:
        """Separate tenants by another secret from now on; all caches start cold.

        Pins and published prefixes end, and what is cached and not in use is forgotten: nobody
        could find it any more, or end it.
        """
        self._roots.rotate(key)
        with suppress(EngineStopped):
            self._loaded.engine.call(lambda core: core.cache.clear())

    async def stream(self, request: ChatRequest) -> AsyncGenerator[ChatEvent, None]:
        """Generate a reply; the last event is `ChatFinished`.

        Closing the generator, at any point, or cancelling the task that reads it gives everything
        back within one step.

        Raises:
            RequestRejected: the request can never run here; `field` says why.
            EngineStopped: the engine is closed.
        """
        reply = await self.open(request)
        try:
            async for event in reply:
                yield event
        finally:
            reply.abort()

    async def open(self, request: ChatRequest) -> ChatStream:
        """Start a reply. It runs until it ends or `ChatStream.abort` is called.

        Raises as `stream` does, but before anything is generated: for front ends that must answer
        a refused request otherwise than a broken one.
        """
        (stream,) = await self.open_many(request, 1)
        return stream

    async def open_many(self, request: ChatRequest, n: int) -> list[ChatStream]:
        """Start `n` replies to one request. Seeds count up from the request's.

        The prompt is computed once. Whoever gets the streams reads each to its end or aborts it.
        Raises as `open`, and ValueError when `n` is less than 1.
        """
        # In a thread: rendering and tokenising a long history must not stall other streams.
        prepared, requests = await asyncio.to_thread(self._prepare_many, request, n)
        streams: list[ChatStream] = []
        # No await from here on: the caller gets all streams, or nothing was submitted.
        try:
            streams.extend(self._started(request, prepared, generate) for generate in requests)
        except BaseException:
            for stream in streams:
                stream.abort()
            raise
        return streams

    def left_to_compute(self, reply: ChatStream) -> Future[int]:
        """How many tokens of the prompt of a reply the engine still has to compute.

        Nothing of other tenants' shows in it: cached is what the request's own may read. Raises
        EngineStopped.
        """
        return self._loaded.engine.call(lambda core: core.left_to_compute(reply.engine_id))

    def _prepare_many(self, request: ChatRequest, n: int) -> tuple[Prepared, list[GenerateRequest]]:
        prepared = self.prepare(request)
        if request.prompt_ids is None:
            self._prompts.turn_of(prepared.generate.namespace, request, prepared.prompt)
        if n == 1:
            return prepared, [prepared.generate]
        stop = request.sampling.stop
        return prepared, samples(
            prepared.generate,
            n,
            text=lambda: GenerationText(self._loaded.tokenizer, stop),
            grammar=lambda: self._grammar(request, prepared.prompt),
        )

    def _started(
        self, request: ChatRequest, prepared: Prepared, generate: GenerateRequest
    ) -> ChatStream:
        generation = self._loaded.engine.submit(generate)
        names = prepared.callable_names
        parameters = {tool.name: tool.parameters for tool in request.tools if tool.name in names}
        parser = (
            ToolCallParser(self._format, callable_names=names, parameters=parameters)
            if names
            else None
        )

        def remember(reply: ReplyAssembler) -> None:
            self._remember(request, prepared, reply)

        assembler = ReplyAssembler(
            parser,
            self._loaded.tokenizer.token_bytes,
            self._thoughts(request, prepared.prompt),
        )
        return ChatStream(generation, assembler, remember, prepared.prompt.ids)

    def _thoughts(self, request: ChatRequest, prompt: Prompt) -> ReasoningParser | None:
        if self._tags is None or not request.separates_reasoning:
            return None
        return ReasoningParser(self._tags, is_open=self._is_thinking(prompt))

    def _is_thinking(self, prompt: Prompt) -> bool:
        """Whether the prompt has begun the reply's thinking."""
        return self._tags is not None and opens_reasoning(prompt.text_end, self._tags)

    def _grammar(self, request: ChatRequest, prompt: Prompt) -> Grammar | None:
        ends = self._tags.closing if self._tags and self._is_thinking(prompt) else None
        return self._compiler.compile_for(request, self._format, thinking_ends=ends)

    def prepare(self, request: ChatRequest) -> Prepared:
        """All that happens before the engine. Blocks for milliseconds; raises as `stream`."""
        namespace = self._roots.of(request.tenant)
        tokenizer = self._loaded.tokenizer
        self._check_size(request)
        self._check_bias(request)
        prompt = self._prompts.build(namespace, request, runs=True)
        for warning in prompt.warnings:
            _log.warning("request %s: %s", request.request_id, warning)
        self._check_length(len(prompt.ids))
        generate = GenerateRequest(
            request_id=self._engine_id(request.request_id),
            prompt=prompt.ids,
            namespace=namespace,
            text=GenerationText(tokenizer, request.sampling.stop),
            sampling=request.sampling,
            grammar=self._grammar(request, prompt),
            eos_ids=frozenset() if request.ignores_end else tokenizer.eos_ids,
            scope=self._roots.scope(request),
            priority=request.priority,
            deadline_s=request.deadline_s,
            speculate=request.speculate,
        )
        return Prepared(
            generate=generate,
            prompt=prompt,
            callable_names=callable_names(request),
        )

    def ids_of_text(self, text: str, *, tenant: str, with_bos: bool = True) -> tuple[int, ...]:
        """Ids of a prompt without a template. The texts of special tokens are these tokens.

        `with_bos` begins with BOS where the model wants it and the text has none. Blocks, like
        `prepare`.

        Raises:
            PromptTooLong: it cannot fit, whatever its ids are.
        """
        tokenizer = self._loaded.tokenizer
        self._check_bytes(len(text.encode("utf-8")))
        ids = tokenizer.encode_rendered(text, None, tenant=tenant)
        bos = tokenizer.encode_prompt("") if with_bos else []
        return tuple(ids if ids[: len(bos)] == bos else [*bos, *ids])

    def _check_size(self, request: ChatRequest) -> None:
        """Refuse what cannot fit whatever its tokens are, before the work of rendering it."""
        in_tools = sum(len(text) for tool in request.tools for _, text in tool_texts(tool))
        self._check_bytes(content_bytes(request.messages) + in_tools)

    def _check_bytes(self, n_bytes: int) -> None:
        n_least = n_bytes // self._loaded.tokenizer.longest_token_bytes
        if n_least >= self.context_tokens:
            raise PromptTooLong(n_least, self.context_tokens - 1, at_least=True)

    def _check_bias(self, request: ChatRequest) -> None:
        """The sampler would fail on an id that the logits do not have."""
        for token_id, _ in request.sampling.logit_bias:
            if token_id >= self._loaded.tokenizer.vocab_size:
                raise RequestRejected(
                    f"logit_bias names token {token_id}; this model's ids are 0 to "
                    f"{self._loaded.tokenizer.vocab_size - 1}",
                    field="logit_bias",
                )

    def _check_length(self, n_tokens: int) -> None:
        """The engine would refuse it too, but cannot say which field of a chat is too long."""
        if n_tokens >= self.context_tokens:
            raise PromptTooLong(n_tokens, self.context_tokens - 1)

    def _engine_id(self, request_id: str | None) -> str:
        """Unique in this service whatever callers send: the engine tells requests apart by it."""
        return f"{request_id or 'chat'}#{next(self._numbers)}"

    def _remember(self, request: ChatRequest, prepared: Prepared, reply: ReplyAssembler) -> None:
        assert reply.finished is not None, "called at the end of a reply"
        if reply.finished.reason not in (FinishReason.STOP, FinishReason.LENGTH):
            return
        if request.prompt_ids is not None:
            return  # no chat's history has it in front
        ids = ids_that_read(self._loaded.tokenizer, reply.token_ids, reply.text)
        if ids:
            self._memory.remember_after(prepared.prompt.end, reply.text, ids)
        if reply.text:
            told = Reply(
                content=f"{request.prefill}{reply.content}",
                calls=reply.calls,
                ids=tuple(ids or reply.token_ids),
            )
            self._prompts.answered(prepared.generate.namespace, request, prepared.prompt, told)
