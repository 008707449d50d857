"""What tests do with a dashboard."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import httpx2
from playwright.sync_api import Page

from agentkit_runtime.service import ChatService
from tests.runtime.service.scripted import BOUND_S, Pace

ANSWERS = {"hello": "Hello, who are you?", "sunny": "It is sunny.", "novel": "Once..."}
RULES = "You are the clerk of a museum. Answer in one sentence, and be kind to everybody."


@dataclass(frozen=True, slots=True, kw_only=True)
class Dashboard:
    """The servers behind it."""

    url: str
    locked_url: str
    keys: dict[str, str]
    service: ChatService
    pace: Pace

    def ask(self, text: str = "hello", *, session: str = "s-1", tags: str = "clerk") -> None:
        """A chat that has begun with the rules."""
        answer = httpx2.post(
            f"{self.url}/v1/chat/completions",
            json={"model": "scripted", "messages": _messages(text)},
            headers={"x-session-id": session, "x-agentkit-tags": tags},
            timeout=BOUND_S,
        )
        assert answer.status_code == 200, answer.text

    @contextmanager
    def answering(self, *, session: str) -> Iterator[None]:
        """The engine is in the middle of an answer in the block; behind it the client is gone."""
        body = {"model": "scripted", "stream": True, "messages": _messages("novel")}
        with httpx2.stream(
            "POST",
            f"{self.url}/v1/chat/completions",
            json=body,
            headers={"x-session-id": session},
            timeout=BOUND_S,
        ) as answer:
            lines = answer.iter_lines()
            while "Once" not in next(lines):
                pass
            self.pace.hold()
            try:
                assert self.pace.waiting.wait(BOUND_S)
                yield
            finally:
                self.pace.go()

    def get(self, path: str) -> dict[str, list[dict[str, object]]]:
        """A document of the admin API."""
        document: dict[str, list[dict[str, object]]] = httpx2.get(
            f"{self.url}/admin/v1/{path}", timeout=BOUND_S
        ).json()
        return document

    def flush(self) -> None:
        """Forget everything."""
        done = httpx2.post(f"{self.url}/admin/v1/flush", json={"all": True}, timeout=BOUND_S)
        assert done.status_code == 200


def look(page: Page) -> None:
    """Let the page poll at once, as it does when its tab comes to the front."""
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")


def _messages(text: str) -> list[dict[str, str]]:
    return [{"role": "system", "content": RULES}, {"role": "user", "content": text}]
