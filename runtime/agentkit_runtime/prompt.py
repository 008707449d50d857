"""From a chat request to the prompt's ids, with what earlier requests have left to be used."""

from __future__ import annotations

from dataclasses import dataclass, replace

from agentkit_runtime.chat import ChatRequest
from agentkit_runtime.continuing import add_continued, add_given
from agentkit_runtime.given_ids import GivenIds, reply_places, without_ids
from agentkit_runtime.prompt_memory import Cut, KnownPrompt, PromptMemory, prompt_keys, thinned
from agentkit_runtime.text.front import NO_FRONT
from agentkit_runtime.text.render import Renderer, Written
from agentkit_runtime.text.tokenizer import RenderedPiece
from agentkit_runtime.token_memory import Piece, PromptIds, TokenMemory
from agentkit_runtime.turn_losses import Reply, TurnLosses

_END_CHARS = 200
"""A template's last words before the reply are in these."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """A rendered and tokenised request."""

    ids: tuple[int, ...]
    n_reused_ids: int
    """Ids that are those of earlier replies and were not made by tokenising."""
    written: Written
    end: PromptIds
    """Where a reply's ids are remembered from."""
    n_known_chars: int
    """Characters of the text whose ids were known from an earlier request."""
    warnings: tuple[str, ...]

    @property
    def text_end(self) -> str:
        """The last characters of the text, without marks."""
        return _unmarked(self.written.marked_text[-_END_CHARS:], self.written.escape)


class PromptBuilder:
    """Renders and tokenises requests for one model. Thread-safe.

    The ids are those of the whole rendered text; the memories only spare work, and put the ids of
    generated replies in the place of those that tokenising gives.
    """

    def __init__(
        self,
        renderer: Renderer,
        replies: TokenMemory,
        prompts: PromptMemory | None = None,
    ) -> None:
        self.renderer = renderer
        self._tokenizer = renderer.tokenizer
        self._replies = replies
        self._prompts = PromptMemory() if prompts is None else prompts
        self.losses = TurnLosses()

    def build(
        self,
        namespace: bytes,
        request: ChatRequest,
        *,
        add_generation_prompt: bool = True,
        runs: bool = False,
    ) -> Prompt:
        """The prompt's ids. `runs` says that they will be computed: `compared` tells of those only.

        Raises:
            RequestRejected: no prompt can be made of the request; `field` says why.
        """
        if request.prompt_ids is not None:
            ids = self._replies.begin(namespace)
            return _made(ids, add_given(ids, request.prompt_ids, self._tokenizer))
        if request.history is not None and add_generation_prompt:
            ids = self._replies.begin(namespace)
            behind = add_continued(ids, request, request.history, self.renderer)
            if behind is not None:
                return _made(ids, behind, n_reused=len(request.history.ids))
        given, request = request, without_ids(request)
        keys = _keys(namespace, request)
        known = self._prompts.find(keys, request.messages)
        written = self.renderer.write(
            request,
            NO_FRONT if known is None else known.front,
            add_generation_prompt=add_generation_prompt,
        )
        places = reply_places(
            self.renderer, given, written, add_generation_prompt=add_generation_prompt
        )
        told = GivenIds(places, written, self._tokenizer)
        prompt, kept = self._tokenised(namespace, request.tenant, written, known, told)
        self._prompts.keep(keys[-1], replace(kept, runs=runs))
        return prompt

    def compared(self, namespace: bytes, request: ChatRequest) -> tuple[tuple[int, ...], Prompt]:
        """The ids of the prompt that ran and that this one begins with, as far as it is remembered;
        and this."""
        plain = without_ids(request)
        known = self._prompts.find(_keys(namespace, plain), plain.messages, that_ran=True)
        return (() if known is None else known.ids), self.build(namespace, request)

    def turn_of(self, namespace: bytes, request: ChatRequest, prompt: Prompt) -> None:
        """Look at how this request goes on from an earlier one whose reply was told."""
        request = without_ids(request)
        self.losses.look(_keys(namespace, request), request.messages, prompt.ids)

    def answered(
        self, namespace: bytes, request: ChatRequest, prompt: Prompt, reply: Reply
    ) -> None:
        """Tell what was replied, to see whether the next turn's prompt has it again."""
        request = without_ids(request)
        self.losses.answered(_keys(namespace, request)[-1], prompt.ids, reply)

    def _tokenised(
        self,
        namespace: bytes,
        tenant: str,
        written: Written,
        known: KnownPrompt | None,
        given: GivenIds,
    ) -> tuple[Prompt, KnownPrompt]:
        text, escape = written.marked_text, written.escape
        cuts: list[Cut] = []
        ids = self._replies.begin(namespace)
        if known is not None:
            cuts += known.common_cuts(text, escape, self._tokenizer.longest_special)
        if known is not None and cuts:
            ids = self._replies.resume(cuts[-1].ids, known.ids)
        start = cuts[-1].n_chars if cuts else 0
        for piece in self._tokenizer.split_rendered(text, escape, tenant=tenant, start=start):
            if piece.is_special and piece.start > start:
                cuts.append(Cut(piece.start, ids.cut()))
            ids.add(_piece(given(piece), text, escape))
        recalled = ids.recalled()
        prompt = Prompt(
            ids=recalled.ids,
            n_reused_ids=recalled.n_reused_ids,
            written=written,
            end=ids,
            n_known_chars=start,
            warnings=(
                *written.warnings,
                *self.renderer.losses(_unmarked(text[start:], escape)),
            ),
        )
        kept = KnownPrompt(
            front=written.front, text=text, escape=escape, cuts=thinned(cuts), ids=recalled.ids
        )
        return prompt, kept


def _made(ids: PromptIds, written: Written, *, n_reused: int = 0) -> Prompt:
    recalled = ids.recalled()
    return Prompt(
        ids=recalled.ids,
        n_reused_ids=recalled.n_reused_ids + n_reused,
        written=written,
        end=ids,
        n_known_chars=0,
        warnings=written.warnings,
    )


def _keys(namespace: bytes, request: ChatRequest) -> list[int]:
    front = hash((request.tenant, *sorted(tool.name for tool in request.tools)))
    return prompt_keys(namespace, front, request.messages)


def _piece(piece: RenderedPiece, text: str, escape: str | None) -> Piece:
    plain = _unmarked(text[piece.start : piece.end], escape)
    return Piece(plain, piece.ids, piece.is_special)


def _unmarked(text: str, mark: str | None) -> str:
    return text if mark is None else text.replace(mark, "")
