"""Gemini's API as an adapter. Read first."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import datetime
from typing import TYPE_CHECKING

from agentkit.blocks import File, Image
from agentkit.caching.plan.plan import CachePlan
from agentkit.caching.policy import Provider, Rates, gemini_policy
from agentkit.caching.times import RealTime, Time
from agentkit.errors import ConfigurationError
from agentkit.events import ModelEvent, UsageEvent
from agentkit.models.base import ModelRequest
from agentkit.models.hosted.begun import Begun
from agentkit.models.hosted.gemini.body import GeminiBody, finish
from agentkit.models.hosted.gemini.cached_content import CachedContents
from agentkit.models.hosted.gemini.decode import Reader
from agentkit.models.hosted.gemini.encoded import new_encoded
from agentkit.models.hosted.gemini.errors import ObjectGone
from agentkit.models.hosted.gemini.front import Front
from agentkit.models.hosted.gemini.layout import Sheet, lay_out
from agentkit.models.hosted.gemini.options import GeminiOptions
from agentkit.models.hosted.gemini.transport import Transport
from agentkit.models.hosted.gemini.vendor import VENDOR
from agentkit.models.hosted.openai_common import LostMarkWarning
from agentkit.models.hosted.wire import Body, Layout
from agentkit.usage import Usage
from agentkit.warn import warn_user

if TYPE_CHECKING:
    from google.genai import Client

_IMAGES = ("image/png", "image/jpeg", "image/webp")
_DOCUMENTS = ("application/pdf", "text/plain")


class GeminiAdapter:
    """Gemini over the official SDK, on Google's own API or on Vertex AI.

    Nothing is imported or connected before the first request is sent.

    Args:
        model: the API's name, e.g. `gemini-3.8-flash`.
        client: the SDK's client; by default one with the key of the environment.
        options: what is the same for all requests.
        time: tells when objects end; the real one by default.

    Raises:
        ConfigurationError: the model has no name, or the client would send through aiohttp.
    """

    def __init__(
        self,
        model: str,
        *,
        client: Client | None = None,
        options: GeminiOptions | None = None,
        time: Time | None = None,
    ) -> None:
        if not model:
            raise ConfigurationError(
                f"model must be a name such as gemini-3.8-flash, got {model!r}"
            )
        self._model = model
        self._options = options or GeminiOptions()
        self._encoded = new_encoded()
        self._begun = Begun[Sheet]()
        self._has_warned = False
        self._transport = Transport(model, self.label, client, self._options)
        self.cached_contents = CachedContents(
            self._transport,
            time=time or RealTime(),
            takes=self._takes,
            rates=self._rates,
        )
        """The objects that hold fronts: what they cost, and how to end them."""

    @property
    def label(self) -> str:
        """Model string."""
        return f"{VENDOR}:{self._model}"

    def shows(self, block: Image | File) -> bool:
        """Whether Gemini reads this kind of image or document. It reads no GIF."""
        readable = _IMAGES if isinstance(block, Image) else _DOCUMENTS
        return block.media_type in readable

    @property
    def provider(self) -> Provider:
        """Whose cache rules hold."""
        return Provider.GEMINI

    @property
    def model(self) -> str:
        """The provider's name of the model."""
        return self._model

    def layout(self, request: ModelRequest) -> Layout:
        """Return the request's pieces; see `Adapter.layout`.

        Warns once of marks that the user set: Gemini has none.
        """
        layout = lay_out(
            request,
            model=self._model,
            options=self._options,
            encoded=self._encoded,
            begun=self._begun,
        )
        if layout.has_marks and not self._has_warned:
            self._has_warned = True
            warn_user(
                f"{self.label} has no cache marks, so the breakpoints in its context do nothing; "
                "what is worth an object is kept in one without them",
                LostMarkWarning,
            )
        return layout

    def body(self, layout: Layout, plan: CachePlan, request: ModelRequest) -> GeminiBody:
        """Return the final bytes; see `Adapter.body`."""
        return finish(layout, plan, request, model=self._model, options=self._options)

    async def stream(self, body: Body) -> AsyncGenerator[ModelEvent, None]:
        """Send it; see `Adapter.stream`.

        Where the body has a front that an object may hold, the object is made or found first, and
        named in the front's place. If the API does not know it any more, the full prompt is sent.
        """
        reader = Reader(self.label)
        async with aclosing(self._texts(body, reader)) as texts:
            async for text in texts:
                for event in reader.read(text):
                    yield event
        for event in reader.end():
            yield event

    async def touch(self, body: Body) -> ModelEvent | None:
        """Renew the object that holds the front. None where there is none: nothing was sent."""
        front = body.front if isinstance(body, GeminiBody) else None
        if front is None or not await self.cached_contents.renew(front.key):
            return None
        # The call has no tokens; what the object costs is in its storage.
        return UsageEvent(usage=Usage.total(()))

    async def aclose(self) -> None:
        """Delete the objects that were made. The client stays open: it may be the caller's."""
        await self.cached_contents.aclose()

    async def _texts(self, body: Body, reader: Reader) -> AsyncGenerator[str, None]:
        front = body.front if isinstance(body, GeminiBody) else None
        name = None if front is None else await self.cached_contents.acquire(front)
        if isinstance(body, GeminiBody) and front is not None and name is not None:
            try:
                async with aclosing(self._transport.stream(body.with_object(name))) as texts:
                    async for text in texts:
                        yield text
                return
            except ObjectGone as error:
                # Only a status raises this, so nothing of the answer was seen.
                self.cached_contents.forget(front.key, name)
                reader.cache_note = f"the front was sent in full: {error}"
        elif front is not None:
            reader.cache_note = "the front was sent in full: it has no cached content at present"
        async with aclosing(self._transport.stream(body.data)) as texts:
            async for text in texts:
                yield text

    def _takes(self, front: Front, at: datetime) -> bool:
        """Whether a front is long enough: the front alone, for a long history does not count.

        The planner knows the length better than we do; but more than twice our estimate it is not.
        """
        policy = gemini_policy(self._model, at.date(), platform=self._options.platform)
        return policy.explicit and 2 * front.n_tokens >= (policy.minimum_tokens or 0)

    def _rates(self, n_tokens: int, at: datetime) -> Rates | None:
        policy = gemini_policy(self._model, at.date(), platform=self._options.platform)
        return None if policy.prices is None else policy.prices.rates_for(n_tokens, at)
