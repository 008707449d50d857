"""What a request may cost, before anybody knows: set aside when it comes, and settled by its end.

Without it, all requests that are under way at once would be let in by what none of them has used
yet. An estimate is no price: a tenant pays for what the engine computed. It takes nothing to be
cached: that is known once the prompt is tokenised, and then the engine's own count takes its place.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from agentkit_runtime.chat import ChatRequest
from agentkit_runtime.text.request_text import message_texts, tool_texts

BYTES_PER_TOKEN = 3
"""Of prompts, in UTF-8. English has more than 4, code somewhat more than 3, Chinese about 3."""

TOKENS_PER_TEMPLATE = 32
"""What chat templates say of their own, such as who the model is."""

TOKENS_PER_MESSAGE = 8
"""What they put around each message and each tool."""

TOKENS_PER_NAME = 2
"""Quotes, colons and braces around each text of a tool's schema."""

UNSAID_ANSWER = 1_024
"""Tokens of an answer whose length nobody has bounded."""

MOST_ANSWER = 4_096
"""Clients name bounds that they seldom need; what a longer answer costs is charged as it is
written."""


def prompts_tokens(chats: Sequence[ChatRequest]) -> int:
    """Tokens of all these prompts. Of a body of 16 MB this takes up to a second."""
    return sum(map(prompt_tokens, chats))


def prompt_tokens(chat: ChatRequest) -> int:
    """Tokens of the prompt; exact where their ids are known."""
    if chat.prompt_ids is not None:
        return len(chat.prompt_ids)
    n_tokens = TOKENS_PER_TEMPLATE
    new, tools = chat.messages, chat.tools
    if chat.history is not None:
        n_tokens += len(chat.history.ids)
        new, tools = chat.messages[chat.history.n_messages :], ()
    for message in new:
        n_tokens += TOKENS_PER_MESSAGE + _tokens(text for _, text in message_texts(message))
    for tool in tools:
        texts = [text for _, text in tool_texts(tool)]
        n_tokens += TOKENS_PER_MESSAGE + TOKENS_PER_NAME * len(texts) + _tokens(texts)
    return n_tokens


def answer_tokens(chat: ChatRequest) -> int:
    """Tokens of one answer."""
    wanted = chat.sampling.max_tokens
    return UNSAID_ANSWER if wanted is None else min(wanted, MOST_ANSWER)


def _tokens(texts: Iterable[str]) -> int:
    return -(-sum(map(_n_bytes, texts)) // BYTES_PER_TOKEN)


def _n_bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
