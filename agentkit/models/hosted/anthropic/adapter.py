"""Claude: the Messages API as an adapter."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from agentkit.blocks import File, Image
from agentkit.caching.plan.plan import CachePlan
from agentkit.caching.policy import DiagnosticsField, Provider, Switches, anthropic_policy
from agentkit.errors import ModelError, RequestRefused
from agentkit.events import ModelEvent, UsageEvent
from agentkit.models.base import ModelRequest
from agentkit.models.hosted.anthropic.attachments import is_readable
from agentkit.models.hosted.anthropic.body import AnthropicBody, finish
from agentkit.models.hosted.anthropic.diagnostics import BETA as DIAGNOSTICS_BETA
from agentkit.models.hosted.anthropic.dialect import Dialect
from agentkit.models.hosted.anthropic.layout import AnthropicLayout, Laid, lay_out
from agentkit.models.hosted.anthropic.options import AnthropicOptions
from agentkit.models.hosted.anthropic.pieces import new_cache
from agentkit.models.hosted.anthropic.reader import AnswerReader
from agentkit.models.hosted.anthropic.sender import Sender
from agentkit.models.hosted.anthropic.usage import usage_of
from agentkit.models.hosted.begun import Begun
from agentkit.models.hosted.rate_headers import OnHeaders
from agentkit.models.hosted.wire import Body
from agentkit.usage import Timing

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic

_MAX_PAUSES = 20
"""More pauses of one answer than any real turn has: a loop between us and the server."""


class AnthropicAdapter:
    """Anthropic's API for one model. Usable from several event loops and threads.

    The API has no seed, so `Settings.seed` is refused. It has no mask of tools either: the loop
    refuses calls of masked tools. Where the newest models bind thinking to all that lies before it,
    what they think behind volatile text is shown and not sent back: no later request has that text.

    Args:
        model: the API's name, e.g. `claude-sonnet-5-5`.
        client: the SDK's client; None makes one that reads its key from the environment, when the
            first request is sent. Only then is the SDK imported.
        options: see `AnthropicOptions`.
        switches: which of contradicting sources to believe.
        clock: seconds, monotonic; for the timing of answers.
    """

    def __init__(
        self,
        model: str,
        *,
        client: AsyncAnthropic | None = None,
        options: AnthropicOptions | None = None,
        switches: Switches | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._model = model
        self._options = _with_header(options or AnthropicOptions(), switches or Switches())
        # Of the policy only the forms of the wire are used here, which have no dates.
        self._policy = anthropic_policy(model, datetime.now(UTC).date(), switches=switches)
        self._dialect = Dialect.of(self.label, self._policy, later_tools=self._options.later_tools)
        self._pieces = new_cache()
        self._begun = Begun[Laid]()
        self._sender = Sender(client, label=self.label, timeout_s=self._options.timeout_s)
        self._clock = clock

    @property
    def on_headers(self) -> OnHeaders | None:
        """Hears the headers of each response; see `TellsHeaders`."""
        return self._sender.on_headers

    @on_headers.setter
    def on_headers(self, hears: OnHeaders | None) -> None:
        self._sender.on_headers = hears

    @property
    def label(self) -> str:
        """The model string."""
        return f"{Provider.ANTHROPIC.value}:{self._model}"

    @property
    def provider(self) -> Provider:
        """Anthropic."""
        return Provider.ANTHROPIC

    @property
    def model(self) -> str:
        """The API's name of the model."""
        return self._model

    @property
    def takes_tools(self) -> bool:
        """Whether tools that come in mid-conversation are shown there; see `TakesTools`."""
        return self._dialect.later_tools is not None

    def shows(self, block: Image | File) -> bool:
        """Whether Claude reads this kind of image or document."""
        return is_readable(block)

    def layout(self, request: ModelRequest) -> AnthropicLayout:
        """Return the request's pieces in the order tools, system, messages.

        Raises:
            RequestRefused: it has no message, a file that Claude does not read, or a seed.
        """
        if request.settings.seed is not None:
            raise RequestRefused(
                f"{self.label}: the API has no seed, got {request.settings.seed!r}; leave it out "
                "of settings"
            )
        return lay_out(
            request,
            model=self._model,
            dialect=self._dialect,
            options=self._options,
            cache=self._pieces,
            begun=self._begun,
        )

    def body(
        self, layout: AnthropicLayout, plan: CachePlan, request: ModelRequest
    ) -> AnthropicBody:
        """Return the final bytes, with the plan's marks as `cache_control`.

        Raises:
            RequestRefused: the API would refuse a mark of the plan.
        """
        return finish(
            layout,
            plan,
            request,
            model=self._model,
            policy=self._policy,
            options=self._options,
        )

    async def stream(self, body: Body) -> AsyncGenerator[ModelEvent, None]:
        """Send it; see `Adapter.stream`. A turn that the server pauses is continued."""
        body = _own(body)
        reader = AnswerReader(
            self._dialect,
            keeps_thinking=body.keeps_thinking,
            remembers_id=self._options.diagnostics,
            clock=self._clock,
        )
        data = body.data
        for _ in range(_MAX_PAUSES):
            async with aclosing(self._sender.events(data, body.headers)) as events:
                async for event in events:
                    for translated in reader.read(event):
                        yield translated
            if not reader.is_paused:
                for translated in reader.end():
                    yield translated
                return
            data = body.continued(reader.resume(), reader.container)
        raise ModelError(f"{self.label} paused one answer {_MAX_PAUSES} times without ending it")

    async def aclose(self) -> None:
        """Close this event loop's own client. One that was given stays open."""
        await self._sender.aclose()

    async def touch(self, body: Body) -> ModelEvent | None:
        """Send the prefix again with `max_tokens: 0`; see `Adapter.touch`.

        None, and nothing sent, where there is no mark to keep alive, or with a thinking budget, an
        enforced output schema or a forced tool, which the API does not take together with it.
        """
        body = _own(body)
        data = body.touching()
        if data is None:
            return None
        started = self._clock()
        answer = await self._sender.response(data, body.headers)
        usage = answer.get("usage")
        return UsageEvent(
            usage=usage_of(usage if isinstance(usage, dict) else {}, self._model),
            timing=Timing(total_s=self._clock() - started),
        )

    def __repr__(self) -> str:
        return f"AnthropicAdapter({self._model!r})"


def _with_header(options: AnthropicOptions, switches: Switches) -> AnthropicOptions:
    if options.diagnostics and switches.anthropic_diagnostics is DiagnosticsField.BETA_HEADER:
        return replace(options, betas=(*options.betas, DIAGNOSTICS_BETA))
    return options


def _own(body: Body) -> AnthropicBody:
    if not isinstance(body, AnthropicBody):
        raise TypeError(f"{body!r:.80} was not made by AnthropicAdapter.body()")
    return body
