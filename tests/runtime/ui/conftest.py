"""A headless Chromium before a whole server, as `serve` puts it together."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, Playwright, expect, sync_playwright

from agentkit_runtime.governing.lifecycle import Lifecycle
from agentkit_runtime.load_text import load_text
from agentkit_runtime.server.access import Access
from agentkit_runtime.server.config import ServerConfig
from agentkit_runtime.server.parts import assembled
from agentkit_runtime.service import ChatService
from agentkit_runtime.tenancy.store import KeyStore
from tests.runtime.api.serving import serving_app
from tests.runtime.service.scripted import Pace, Script, scripted_model
from tests.runtime.ui.dashboard import ANSWERS, Dashboard

BOUND_MS = 15_000
NAMES = ("chromium", "chromium-browser", "google-chrome")


def executable(playwright: Playwright) -> str | None:
    """A Chromium that is installed: Playwright's own, or the system's."""
    own = playwright.chromium.executable_path
    return own if Path(own).exists() else next(filter(None, map(shutil.which, NAMES)), None)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Of the module: while Playwright runs, no test of its process can have an event loop."""
    with sync_playwright() as playwright:
        path = executable(playwright)
        if path is None:
            pytest.skip(
                "no Chromium: `playwright install chromium`, or the system's package `chromium`"
            )
        expect.set_options(timeout=BOUND_MS)
        # Containers run tests as root, where Chromium's own sandbox does not work.
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def dashboard(
    browser: Browser, smollm2_gguf: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Dashboard]:
    """A server without keys, and one with keys before the same engine."""
    text = load_text(smollm2_gguf)
    pace = Pace(Script(text[0], ANSWERS))
    folder = tmp_path_factory.mktemp("ui")
    with ExitStack() as running:
        enter = running.enter_context
        service = ChatService(enter(scripted_model(*text, pace)))
        store = enter(KeyStore(folder / "keys.db", create=True))
        keys = {
            role: store.add(roles=frozenset({role}), tenant=tenant, now_s=0.0).key
            for role, tenant in (("user", "ann"), ("admin", None))
        }
        urls = []
        for access in (Access(), Access(keys=store.path)):
            config = ServerConfig(model="scripted", access=access)
            parts = enter(assembled(service, config, Lifecycle("ready"), model_ids=("scripted",)))
            urls.append(enter(serving_app(parts.served))[0])
        yield Dashboard(url=urls[0], locked_url=urls[1], keys=keys, service=service, pace=pace)


class Open:
    """Opens the dashboard, each time in a browser that knows nothing."""

    def __init__(self, browser: Browser, url: str) -> None:
        self._browser = browser
        self._url = url
        self.complaints: list[str] = []
        """What the pages' console says; tests that expect some take them out."""

    def __call__(self, url: str | None = None, **options: Any) -> Page:
        settings = {"viewport": {"width": 1280, "height": 800}, **options}
        page = self._browser.new_context(**settings).new_page()
        page.set_default_timeout(BOUND_MS)
        page.on("console", self._heard)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.goto(f"{url or self._url}/ui")
        return page

    def _heard(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)


@pytest.fixture
def open_page(browser: Browser, dashboard: Dashboard) -> Iterator[Open]:
    """At the end no page has had anything to complain of, such as its security policy."""
    dashboard.flush()
    opener = Open(browser, dashboard.url)
    yield opener
    for context in list(browser.contexts):
        context.close()
    assert opener.complaints == []
