"""Pictures of the dashboard for the docs: a real server, the bundled model, a few agents at work.

`python runtime/bench/ui_screenshots.py [folder]` needs Playwright and a Chromium, and takes about
two minutes on two cores.
"""

from __future__ import annotations

import random
import shutil
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
from playwright.sync_api import Browser, Page, sync_playwright

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.serve_process import serve_process

OUT = Path(__file__).parents[2] / "docs" / "images"
WAIT_MS = 60_000
OPTIONS = ("--slots", "4096", "--host-cache", "200MB")

ROLES = {
    "planner": "You plan visits to a museum. Name the halls in the order to see them.",
    "guide": "You are a guide in a museum. Answer what visitors ask about what they see.",
    "clerk": "You are the clerk of a museum. You sell tickets and know the opening hours.",
}
RULES = " ".join(
    f"Hall {i} shows {what}; it opens at {9 + i % 3} and closes at {17 + i % 4}."
    for i, what in enumerate(("maps", "clocks", "ships", "coins", "masks", "robots", "birds") * 2)
)


class Agents:
    """Agents of three kinds, each in conversations of some turns."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._random = random.Random(7)

    def talk(self, role: str, session: str, turns: int) -> None:
        """One conversation."""
        asks = httpx2.Client(base_url=self._url, timeout=300)
        messages = [{"role": "system", "content": f"{RULES} {ROLES[role]}"}]
        headers = {"x-session-id": session, "x-agentkit-tags": role}
        with asks:
            for turn in range(turns):
                hall = self._random.randrange(14)
                question = f"Question {turn + 1}: what do I see in hall {hall}?"
                messages.append({"role": "user", "content": question})
                body = {"model": "smollm2", "messages": messages, "max_tokens": 24}
                answer = asks.post("/v1/chat/completions", json=body, headers=headers)
                answer.raise_for_status()
                messages.append(answer.json()["choices"][0]["message"])

    def stranger(self, number: int) -> None:
        """Somebody who shares nothing with the agents."""
        text = f"Stranger {number}: " + " ".join(
            f"Line {number}.{i} of a letter." for i in range(20)
        )
        messages = [{"role": "user", "content": text}]
        body = {"model": "smollm2", "messages": messages, "max_tokens": 8}
        headers = {"x-session-id": f"letter-{number + 1}", "x-agentkit-priority": "batch"}
        httpx2.post(
            f"{self._url}/v1/chat/completions", json=body, headers=headers, timeout=300
        ).raise_for_status()

    def day(self) -> None:
        """What is on the pictures."""
        pin: dict[str, Any] = {"name": "clerk's rules", "ttl_s": 86_400}
        rules = [{"role": "system", "content": f"{RULES} {ROLES['clerk']}"}]
        httpx2.post(
            f"{self._url}/admin/v1/pins", json={"messages": rules, **pin}, timeout=300
        ).raise_for_status()
        for number in range(3):
            at_work = [
                threading.Thread(target=self.talk, args=(role, f"{role}-{number + 1}", 3 + number))
                for role in ROLES
            ]
            for thread in at_work:
                thread.start()
            for thread in at_work:
                thread.join()
            self.stranger(number)


@contextmanager
def chromium() -> Iterator[Browser]:
    """Playwright's own, or the system's."""
    with sync_playwright() as playwright:
        own = playwright.chromium.executable_path
        path = own if Path(own).exists() else shutil.which("chromium")
        if path is None:
            sys.exit("no Chromium: `playwright install chromium`, or the system's package")
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


def opened(browser: Browser, url: str, width: int, height: int, scheme: str) -> Page:
    """The dashboard, filled."""
    context = browser.new_context(viewport={"width": width, "height": height})
    page = context.new_page()
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    page.goto(f"{url}/ui")
    page.get_by_label("Time", exact=True).select_option("60")
    page.locator(".node.leaf").first.wait_for(timeout=WAIT_MS)
    return page


def picture(page: Page, path: Path, *, part: str | None = None) -> None:
    """A PNG of what is visible, or of one part of the page."""
    if part is None:
        page.evaluate("scrollTo(0, 0)")
        page.screenshot(path=path)
    else:
        page.locator(part).screenshot(path=path)
    sys.stdout.write(f"{path.name}: {path.stat().st_size / 1000:.0f} kB\n")


def main() -> None:
    """Make all pictures."""
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else OUT
    out.mkdir(parents=True, exist_ok=True)
    with serve_process(*OPTIONS) as server, chromium() as browser:
        agents = Agents(server.url)
        agents.day()
        busy = threading.Thread(target=agents.talk, args=("guide", "guide-4", 6))
        busy.start()
        for scheme in ("light", "dark"):
            page = opened(browser, server.url, 1280, 860, scheme)
            picture(page, out / f"dashboard-{scheme}.png")
        page = opened(browser, server.url, 1280, 860, "light")
        page.get_by_role("treeitem", name="clerk-2, tokens").click()
        page.locator("#details h3").wait_for()
        picture(page, out / "dashboard-tree.png", part="section.card:has(#tree)")
        busy.join()
        picture(opened(browser, server.url, 390, 844, "light"), out / "dashboard-phone.png")


if __name__ == "__main__":
    main()
