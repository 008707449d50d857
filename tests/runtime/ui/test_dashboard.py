"""The dashboard in a headless Chromium, as an operator uses it."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import httpx2
import pytest
from playwright.sync_api import Locator, Page, Route, expect

from agentkit_runtime.api.ui import UI_PATHS
from agentkit_runtime.kv.tiers.stats import TierStats
from tests.runtime.ui.conftest import Open
from tests.runtime.ui.dashboard import Dashboard, look

HOSTILE = "<script>window.broken=1</script><img src=x onerror=window.broken=1>"

CONTRASTS = """
() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgb = (colour) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const luminance = (c) => c.slice(0, 3).map((v) => v / 255)
    .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const ground = (element) => {
    for (let e = element; e; e = e.parentElement) {
      const isBeside = e !== element && e.classList.contains("leaf"); // its text is right of it
      const c = rgb(getComputedStyle(e).backgroundColor);
      if (c[3] === 255 && !isBeside) return c;
    }
    return [255, 255, 255, 255];
  };
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || !element.checkVisibility()) continue;
    const style = getComputedStyle(element);
    const colour = element.closest("svg") ? style.fill : style.color;
    const [a, b] = [luminance(rgb(colour)), luminance(ground(element))].sort((x, y) => y - x);
    found.push([(a + 0.05) / (b + 0.05), walker.currentNode.data.trim()]);
  }
  return found;
}
"""

_OF_HEAT = f"""
() => {{
  for (const bar of document.querySelectorAll(".node:not(.root)"))
    bar.className = bar.className.replace(/heat[0-9]/, "heatHEAT");
  return ({CONTRASTS})();
}}
"""


def tile(page: Page, name: str) -> Locator:
    return page.locator(".tile").filter(has=page.get_by_role("heading", name=name, exact=True))


def rows(page: Page, table: str) -> Locator:
    return page.locator(f"#{table} tr")


def node(page: Page, name: str) -> Locator:
    return page.get_by_role("treeitem", name=f"{name}, tokens")


def test_a_server_that_was_asked_nothing_says_so(open_page: Open) -> None:
    page = open_page()
    expect(page.locator("#phase")).to_have_text("ready")
    expect(page.locator("#model")).to_have_text("scripted")
    expect(page.get_by_text("Nothing is cached yet")).to_be_visible()
    expect(page.locator("#tree-axis")).to_be_hidden()
    expect(page.get_by_text("Nothing is pinned")).to_be_visible()
    expect(page.locator(".chart")).to_have_count(6)
    expect(page.get_by_text("Forget the key")).to_be_hidden()


def test_it_follows_requests_while_they_run(open_page: Open, dashboard: Dashboard) -> None:
    page = open_page()
    expect(tile(page, "Running").locator(".big")).to_have_text("0")
    with dashboard.answering(session="trip"):
        expect(tile(page, "Running").locator(".big")).to_have_text("1")  # without a nudge
    dashboard.ask("sunny", session="other")
    look(page)
    expect(rows(page, "requests").filter(has_text="trip")).to_contain_text("client left")
    newest = rows(page, "requests").first
    expect(newest).to_contain_text("other")
    expect(newest).to_contain_text("differs from what is cached")
    expect(newest).to_contain_text(re.compile(r"\d+ of \d+"))
    expect(node(page, "trip")).to_be_visible()
    expect(rows(page, "sessions").filter(has_text="other")).to_contain_text("clerk")
    expect(tile(page, "Hit ratio").locator(".big")).to_contain_text("%")


def test_a_branch_is_pinned_and_let_go(open_page: Open, dashboard: Dashboard) -> None:
    dashboard.ask()
    page = open_page()
    node(page, "s-1").click()
    page.get_by_role("button", name="Pin…").click()
    page.get_by_label("Name", exact=True).fill("front desk")
    page.get_by_label("Kept").select_option(label="1 hour after its last use")
    page.get_by_role("button", name=re.compile(r"Pin \d+ tokens")).click()

    expect(rows(page, "pins")).to_contain_text(["front desk"])
    expect(page.get_by_role("treeitem", name=re.compile("pinned"))).to_be_visible()
    (pin,) = dashboard.get("pins")["data"]
    assert (pin["name"], pin["ttl_s"]) == ("front desk", 3600)

    page.locator("#details").get_by_role("button", name="Unpin").click()
    expect(rows(page, "pins")).to_have_count(0)
    expect(page.get_by_role("status")).to_have_text("Unpinned front desk.")
    assert dashboard.get("pins")["data"] == []


def test_a_prune_is_told_before_it_is_done(open_page: Open, dashboard: Dashboard) -> None:
    dashboard.ask("hello", session="keep")
    dashboard.ask("sunny", session="forget")
    page = open_page()
    ask = rows(page, "sessions").filter(has_text="forget").get_by_role("button")
    ask.click()
    expect(page.locator("#dialog")).to_contain_text(re.compile(r"\d+ tokens in 1 node become free"))
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator("#dialog")).to_be_hidden()
    expect(node(page, "forget")).to_be_visible()

    ask.click()
    page.get_by_role("button", name=re.compile(r"Prune \d+ tokens")).click()
    expect(page.get_by_role("status")).to_contain_text("Pruned:")
    expect(node(page, "forget")).to_have_count(0)
    expect(node(page, "keep")).to_be_visible()
    assert "forget" not in str(dashboard.get("tree")["nodes"])


def test_the_tree_is_walked_with_arrow_keys(open_page: Open, dashboard: Dashboard) -> None:
    dashboard.ask("hello", session="a")
    dashboard.ask("sunny", session="b")
    page = open_page()
    page.get_by_role("treeitem", name="tenant default").focus()
    for step in ("ArrowRight", "ArrowRight", "ArrowDown"):
        page.keyboard.press(step)
    expect(node(page, "b")).to_be_focused()
    expect(node(page, "b")).to_have_attribute("aria-selected", "true")
    expect(page.locator("#details h3")).to_have_text("b")
    page.keyboard.press("ArrowLeft")
    expect(page.locator("#details")).to_contain_text("A prefix that several share")


def test_labels_of_tenants_are_text_and_nothing_else(open_page: Open, dashboard: Dashboard) -> None:
    dashboard.ask(session=HOSTILE, tags=HOSTILE.replace(",", ""))
    page = open_page()
    node(page, HOSTILE).click()
    page.locator("#details").get_by_role("button", name="Prune session").click()
    expect(page.locator("#dialog h2")).to_contain_text(HOSTILE)
    page.get_by_role("button", name="Cancel").click()
    expect(rows(page, "requests").first).to_contain_text(HOSTILE)
    assert page.locator("img").count() == 1
    assert page.locator("script").count() == 2
    assert page.evaluate("window.broken") is None


def test_the_page_may_not_turn_text_into_html(open_page: Open) -> None:
    page = open_page()
    said = page.evaluate("try { document.body.innerHTML = '<b>x</b>' } catch (e) { e.name }")
    assert said == "TypeError"
    assert all("TrustedHTML" in one for one in open_page.complaints)
    open_page.complaints.clear()


@pytest.mark.parametrize("width", [320, 390])
def test_a_phone_shows_all_without_scrolling_sideways(
    open_page: Open, dashboard: Dashboard, width: int
) -> None:
    dashboard.ask(session="a-rather-long-name-of-a-session-" * 4, tags="x" * 200)
    page = open_page(viewport={"width": width, "height": 800}, is_mobile=True, has_touch=True)
    page.locator(".node.leaf").tap()
    expect(page.locator("#details")).to_contain_text("Used by")
    assert page.evaluate("document.documentElement.scrollWidth") == width
    assert page.evaluate("innerWidth") == width


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_text_can_be_told_from_its_ground(
    open_page: Open, dashboard: Dashboard, scheme: str
) -> None:
    dashboard.ask("hello", session="a")
    for _ in range(2):
        dashboard.ask("sunny", session="b")
    page = open_page(color_scheme=scheme)
    node(page, "a").click()
    expect(rows(page, "requests").first).to_be_visible()
    for colour in ("use", "hits"):
        page.get_by_label("Colour").select_option(colour)
        found = page.evaluate(CONTRASTS)
        assert len(found) > 100
        assert [(round(ratio, 2), text) for ratio, text in found if ratio < 4.5] == []
    for heat in range(5):  # each of them, though so small a tree has few
        found = page.evaluate(_OF_HEAT.replace("HEAT", str(heat)))
        assert [(round(ratio, 2), text) for ratio, text in found if ratio < 4.5] == []


def test_a_theme_is_chosen_and_remembered(open_page: Open) -> None:
    page = open_page(color_scheme="light")
    ground = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(ground)
    page.get_by_label("Theme").select_option("dark")
    dark = page.evaluate(ground)
    assert dark != light
    page.reload()
    assert page.evaluate(ground) == dark


def test_a_server_with_keys_is_opened_with_an_admin_key(
    open_page: Open, dashboard: Dashboard
) -> None:
    page = open_page(dashboard.locked_url)
    field = page.get_by_label("Admin key")
    for wrong, why in (("wrong", "key"), (dashboard.keys["user"], "no admin role")):
        field.fill(wrong)
        field.press("Enter")
        expect(page.locator("#login-error")).to_contain_text(why)
        expect(page.locator("#login-error")).not_to_contain_text(wrong)
    field.fill(dashboard.keys["admin"])
    field.press("Enter")
    expect(page.locator("#phase")).to_have_text("ready")
    assert page.evaluate("Object.values(sessionStorage)") == [dashboard.keys["admin"]]
    assert page.evaluate("[document.cookie, localStorage.length, location.search]") == ["", 0, ""]
    page.get_by_role("button", name="Forget the key").click()
    expect(field).to_be_visible()
    assert page.evaluate("sessionStorage.length") == 0
    assert all("401" in one or "403" in one for one in open_page.complaints), open_page.complaints
    open_page.complaints.clear()


def test_a_server_that_is_gone_is_told_and_found_again(
    open_page: Open, dashboard: Dashboard
) -> None:
    page = open_page()
    expect(page.locator("#phase")).to_have_text("ready")
    page.route("**/admin/**", lambda route: route.abort())
    look(page)
    expect(page.get_by_role("alert").first).to_contain_text("cannot be reached")
    expect(page.locator("#phase")).to_have_text("no answer")
    page.unroute("**/admin/**")
    expect(page.locator("#phase")).to_have_text("ready")  # without a nudge
    expect(page.locator("#trouble")).to_be_hidden()
    assert all("net::ERR_FAILED" in one for one in open_page.complaints)
    open_page.complaints.clear()


def test_an_engine_that_has_stopped_is_told_with_what_to_do(open_page: Open) -> None:
    is_healthy = [False]

    def stopped(route: Route) -> None:
        answer = route.fetch()
        route.fulfill(response=answer, json={**answer.json(), "healthy": is_healthy[0]})

    page = open_page()
    page.route("**/admin/v1/state*", stopped)
    look(page)
    expect(page.get_by_role("alert").first).to_contain_text("The engine has stopped")
    expect(page.locator("#phase")).to_have_text("stopped")
    expect(tile(page, "Pressure")).to_contain_text("not measured now")
    is_healthy[0] = True
    look(page)
    expect(page.locator("#trouble")).to_be_hidden()


def test_a_long_tenants_name_leaves_the_header_as_it_is(open_page: Open) -> None:
    page = open_page()
    expect(page.locator("#phase")).to_have_text("ready")
    page.evaluate("document.getElementById('tenant').append(new Option('x'.repeat(64)))")
    box = page.locator("#tenant").bounding_box()
    assert box is not None
    assert box["width"] < 260


def test_numbers_of_bars_are_whole_or_not_there(open_page: Open) -> None:
    page = open_page()
    page.route("**/admin/v1/tree*", lambda route: _large(route))
    look(page)
    expect(page.locator(".node")).to_have_count(500)
    shown, cut = page.evaluate("""() => {
      const all = [...document.querySelectorAll(".node:not(.leaf, .root) .tokens")]
        .filter((one) => one.checkVisibility());
      const end = (one) => one.getBoundingClientRect().right;
      return [all.length, all.filter((one) => end(one) > end(one.closest(".node"))).length];
    }""")
    assert shown >= 1
    assert cut == 0


def test_a_large_tree_is_shown_as_far_as_it_was_used_last(
    open_page: Open, dashboard: Dashboard
) -> None:
    page = open_page()
    expect(page.locator("#phase")).to_have_text("ready")
    page.route("**/admin/v1/tree*", lambda route: _large(route))
    look(page)
    expect(page.locator(".node")).to_have_count(500)
    expect(page.locator("#tree-summary")).to_contain_text("the 499 nodes that were used last")
    drawn_ms = page.evaluate(
        "() => { const t = performance.now(); const c = document.getElementById('tree-colour');"
        " c.value = 'hits'; c.dispatchEvent(new Event('change')); return performance.now() - t; }"
    )
    assert drawn_ms < 1000
    assert page.evaluate("document.documentElement.scrollWidth") == 1280


def _large(route: Route) -> None:
    blank: dict[str, Any] = {
        "tenant": "ann", "hits": 1, "uses_ago": 3, "locks": 0, "locked": False, "pinned": False,
        "pins": [], "published": False, "sessions": [], "tags": [], "children": 0, "medium": "GPU",
    }  # fmt: skip
    nodes = [{**blank, "id": -1, "parent": None, "start": 0, "tokens": 0, "children": 2}]
    nodes += [{**blank, "id": 99, "parent": 0, "start": 0, "tokens": 100, "children": 10_000}]
    for i in range(398):
        nodes.append({**blank, "id": 1000 + i, "parent": 1, "start": 100, "tokens": 5 + i})
    for i in range(100):  # one long conversation
        above = 0 if i == 0 else len(nodes) - 1
        nodes.append(
            {**blank, "id": 5000 + i, "parent": above, "start": 9 * i, "tokens": 9, "children": 1}
        )
    route.fulfill(
        json={"object": "tree", "namespaces": 1, "total_tokens": 1_000_000, "complete": False,
              "nodes": nodes}
    )  # fmt: skip


def test_files_are_open_strict_and_complete(dashboard: Dashboard) -> None:
    with httpx2.Client(base_url=dashboard.locked_url) as client:
        for path in UI_PATHS - {"/ui"}:
            answer = client.get(path)
            assert answer.status_code == 200, path
            policy = answer.headers["content-security-policy"]
            assert policy.startswith("default-src 'none'")
            assert "unsafe" not in policy
            again = client.get(path, headers={"if-none-match": answer.headers["etag"]})
            assert (again.status_code, again.content) == (304, b"")
        for path in ("/ui/nothing.js", "/ui/%2e%2e/caller.py", "/ui/routes.py"):
            assert client.get(path).status_code in (401, 404)
        moved = client.get("/ui")
    assert (moved.status_code, moved.headers["location"]) == (307, "ui/")


def test_a_tier_is_shown_as_full_as_it_is_of_what_it_may_take(open_page: Open) -> None:
    tiers = {field.name: 0 for field in dataclasses.fields(TierStats)}
    tiers |= {"host_blocks": 10, "host_bytes": 250_000, "host_max_bytes": 1_000_000}
    tiers |= {"disk_blocks": 30, "disk_bytes": 3_000_000_000, "disk_max_bytes": 4_000_000_000}

    def with_tiers(route: Route) -> None:
        answer = route.fetch()
        route.fulfill(response=answer, json={**answer.json(), "tiers": tiers})

    page = open_page()
    page.route("**/admin/v1/state*", with_tiers)
    look(page)
    for name, says, width in (
        ("Host memory", "1.00 MBkept 250 kB (25.0 %), 160 tokensfree 750 kB", "25%"),
        ("Disk", "4.00 GBkept 3.00 GB (75.0 %), 480 tokensfree 1.00 GB", "75%"),
    ):
        shown = page.locator("#memory .tier").filter(has_text=name)
        expect(shown).to_have_text(f"{name} {says} ")
        expect(shown.locator(".fill").first).to_have_attribute("style", f"width: {width};")
    tiers |= {"disk_blocks": 0, "disk_bytes": 0, "disk_max_bytes": 0}
    look(page)
    expect(page.locator("#memory .tier").filter(has_text="Disk")).to_contain_text("not used")
