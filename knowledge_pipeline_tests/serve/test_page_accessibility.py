"""The page for everybody: every view checked by axe, in light and dark, on a desktop and on a phone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from knowledge_pipeline.config import file
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.logs import record_event
from knowledge_pipeline.store.progress import SourceProgress
from knowledge_pipeline_tests.fakes.identity_server import IdentityServer
from knowledge_pipeline_tests.serve.axe import find_violations, load_axe
from knowledge_pipeline_tests.serve.chromium import IN_CHROMIUM, browser
from knowledge_pipeline_tests.serve.oidc_world import trusting
from knowledge_pipeline_tests.serve.running import Running
from knowledge_pipeline_tests.serve.world import World

__all__ = ["browser"]

pytestmark = IN_CHROMIUM

DESKTOP: dict[str, Any] = {"color_scheme": "light", "viewport": {"width": 1280, "height": 800}}
PHONE: dict[str, Any] = {
    "color_scheme": "dark",
    "viewport": {"width": 360, "height": 740},
    "has_touch": True,
    "reduced_motion": "reduce",
}
VIEWS = (
    "/",
    "/?q=how+is+a+payment+retried&limit=8",  # code, documents, archived ones
    "/?q=put_payment&type=code&source=shop-code",
    "/?q=double+charge&source_type=jira",
    "/?q=pager&source_type=confluence",
    "/?q=def+retry&type=similar&limit=3",
    f"/?q=nothing+path:{'long' * 30}&source=shop-cod",
    "/?q=x&since=never",  # a problem
    "/doc?id=shop-code:shop/store.py&lines=L4-L9&q=payments",
    "/doc?id=shop-docs:README.md",
    "/doc?id=nothing",
    "/graph?target=Store.put_payment",
    "/graph?target=payment",  # several things have this name, or none
    "/related?id=SHOP-1",
    "/similar?id=shop-docs:README.md",
    "/trace?id=shop-docs:README.md",
    "/sources",
)
CONFIG = """
version: 1
store: .knowledge
sources:
  - {id: guide, type: markdown, connection: {type: local, path: .}}
  - {id: secret, type: markdown, connection: {type: local, path: .}, access: {visibility: tenant, tenant: a}}
"""


@pytest.fixture(scope="module")
def axe(request: pytest.FixtureRequest) -> str:
    return load_axe(Path(request.config.cache.mkdir("axe")))


@dataclass(frozen=True)
class Empty:
    """A server whose store has no release, and two sources that are declared."""

    lake: Lake
    running: Running


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Empty]:
    root = tmp_path_factory.mktemp("empty")
    (root / "knowledge.yaml").write_text(CONFIG)
    settings = file.load_settings(root / "knowledge.yaml")
    with Running(settings, config=root / "knowledge.yaml") as running:
        yield Empty(Lake(settings.store), running)


@pytest.mark.parametrize("how", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_axe_finds_nothing_wrong_in_any_view(
    browser: Browser, axe: str, server: Running, empty: Empty, world: World, how: dict[str, Any]
) -> None:
    wrong: dict[str, list[str]] = {}

    def check(page: Page, name: str) -> None:
        found = find_violations(page, axe)
        width = page.evaluate("document.documentElement.scrollWidth")
        if width > how["viewport"]["width"]:
            found.append(f"it is {width} pixels wide")
        if found:
            wrong[name] = found

    def visit(context_url: str, addresses: tuple[str, ...], token: str | None = None) -> Page:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        page = browser.new_context(base_url=context_url, extra_http_headers=headers, **how).new_page()
        for address in addresses:
            page.goto(address)
            for summary in page.locator("main summary").all()[:8]:
                if summary.is_visible() and not summary.evaluate("(each) => each.parentElement.open"):
                    summary.click()
            check(page, address)
        return page

    page = visit(server.url, VIEWS, world.tokens["operator"])
    page.goto("/?q=put_payment&type=code&source=shop-code&limit=2")
    for panel in ("graph", "similar", "blame", "trace"):
        if (link := page.locator(f'[data-panel="{panel}"]').first).is_visible():
            link.click()
            expect(page.locator(".opened:not([hidden]) .panel-title").first).to_be_visible()
            check(page, f"the panel {panel}")
    page.keyboard.press("?")
    check(page, "the help")
    page.context.close()

    with (
        IdentityServer(host="localhost") as identity,
        Running(world.settings, anonymous="off", oidc=trusting(identity)) as locked,
    ):
        visit(locked.url, ("/sign-in?token=wrong",)).context.close()

    page = visit(empty.running.url, ("/", "/sources"))
    shown = SourceProgress(empty.lake.folder, "guide")
    shown.show()
    expect(page.locator("#live")).to_be_visible()
    check(page, "a refresh of an empty store")
    shown.hide()
    page.context.close()
    assert wrong == {}


def test_a_first_index_is_shown_live_and_by_keyboard_and_voice(browser: Browser, empty: Empty) -> None:
    page = browser.new_context(base_url=empty.running.url).new_page()
    page.goto("/")
    expect(page.get_by_role("heading", level=1)).to_have_text("Nothing is released yet")
    expect(page.locator("main")).to_contain_text("knowledge refresh")
    expect(page.locator("main")).not_to_contain_text("secret")
    expect(page.locator("#live")).to_be_hidden()
    files = {source: SourceProgress(empty.lake.folder, source) for source in ("guide", "secret")}
    for each in files.values():
        each.show()
        each.report("embeddings", 1200, 4000, 80.0, 35.0)
    expect(page.locator("#live li")).to_have_count(1)  # of the tenant's source nobody else hears
    expect(page.locator("#live li")).to_contain_text("guide embedding, 1,200 of 4,000")
    expect(page.locator("#live li")).to_contain_text("80/s, 0:35 left")
    assert page.get_by_role("progressbar", name="guide: embedding").get_attribute("value") == "0.300"
    page.goto("/sources")  # also as it is loaded, without a stream
    assert "embedding, 1,200 of 4,000" in empty.running.client().get("/sources").text
    for each in files.values():
        each.hide()
    content = {"release": 1, "rows": 7, "spaces": [], "embedded_share": 1.0}
    record_event(empty.lake, "release.published", content, at=datetime.now(UTC), release=1)
    expect(page.get_by_role("status").filter(has_text="Release 1")).to_contain_text("Show it")
    page.context.close()


def focused(page: Page) -> str:
    return page.evaluate("document.activeElement.dataset.focus ?? document.activeElement.className")


@pytest.fixture
def desktop(browser: Browser, server: Running) -> Iterator[Callable[[str], Page]]:
    context = browser.new_context(base_url=server.url, **DESKTOP)

    def visit(address: str) -> Page:
        page = context.new_page()
        page.goto(address)
        return page

    yield visit
    context.close()


def test_the_focus_stays_where_it_is_useful(desktop: Callable[[str], Page]) -> None:
    page = desktop("/?q=payments")
    assert page.title() == f"{page.locator('h1').inner_text()} · payments · knowledge"
    page.locator('[data-focus="source_type=code"]').focus()
    page.keyboard.press("Enter")
    expect(page.locator(".facet.on")).to_contain_text("Remove the filter code")
    assert focused(page) == "source_type=code"
    page.keyboard.press("j")
    page.keyboard.press("g")
    panel = page.locator(".result").first.locator("> .opened")
    panel.locator("a").first.focus()
    page.keyboard.press("Escape")
    expect(panel).to_be_hidden()
    expect(page.locator('[data-panel="graph"]').first).to_be_focused()


CONTROLS = """() => [...document.querySelectorAll(
  "a[href]:not([tabindex]), button, summary, select, input:not([type=hidden]), textarea",
)].filter((each) => each.checkVisibility() && !each.closest("dialog")).length"""
FOCUSED = """() => {
  const each = document.activeElement;
  const outlined = each.matches(".unfold") ? each.parentElement.querySelector(".more") : each;
  return [[...document.querySelectorAll("*")].indexOf(each), getComputedStyle(outlined).outlineStyle];
}"""


def test_tab_reaches_everything_and_shows_where_it_is(desktop: Callable[[str], Page]) -> None:
    page = desktop("/?q=put_payment&type=code&source=shop-code&limit=2")
    controls, reached = page.evaluate(CONTROLS), dict[int, str]()
    for _ in range(2 * controls):
        page.keyboard.press("Tab")
        place, outline = page.evaluate(FOCUSED)
        if place in reached or page.evaluate("document.activeElement === document.body"):
            break
        reached[place] = outline
    assert len(reached) >= controls > 20  # nothing is passed over, and nothing holds the focus
    assert "none" not in reached.values()
