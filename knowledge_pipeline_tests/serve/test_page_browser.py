"""The search page in Chromium, as a person uses it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, Route, expect

from knowledge_pipeline_tests.conftest import Project, embedding_by
from knowledge_pipeline_tests.fakes.openai_server import OpenAIServer
from knowledge_pipeline_tests.serve.attacks import attacked_by
from knowledge_pipeline_tests.serve.chromium import IN_CHROMIUM, browser
from knowledge_pipeline_tests.serve.running import Running
from knowledge_pipeline_tests.serve.world import World

__all__ = ["browser"]

pytestmark = IN_CHROMIUM

TOLD_AFTER_A_WHILE = """() => {
  document.getElementById("search").requestSubmit();
  return new Promise((told) => setTimeout(() => told(document.getElementById("busy").textContent), 2000));
}"""


Opened = Callable[..., Page]


@pytest.fixture
def opened(browser: Browser) -> Iterator[Opened]:
    """Opens a page of a server in a context of its own; nothing may go wrong in it or leave it."""
    troubles: list[str] = []
    contexts: list[Any] = []

    def open_page(running: Running, address: str = "/", **how: Any) -> Page:
        own = running.url
        context = browser.new_context(base_url=own, **{"color_scheme": "light", **how})
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(120_000)
        page.on("console", lambda told: _is_trouble(told) and troubles.append(told.text))
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on("dialog", lambda dialog: troubles.append(f"a dialog: {dialog.message}") or dialog.dismiss())
        page.on("request", lambda sent: sent.url.startswith(own) or troubles.append(sent.url))
        page.goto(address)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert not troubles


def _is_trouble(told: ConsoleMessage) -> bool:
    """An error, other than that a page asks for a token."""
    return told.type == "error" and "401" not in told.text


def test_one_searches_filters_and_opens_a_document(opened: Opened, server: Running) -> None:
    page = opened(server)
    expect(page.get_by_role("searchbox")).to_be_focused()
    page.keyboard.type("how is a payment retried")
    page.keyboard.press("Enter")
    expect(page.locator(".result").first).to_be_visible()
    page.wait_for_load_state()  # all results are there
    before = page.locator(".result").count()
    page.get_by_role("link", name=re.compile(r"^ticket \d+$")).click()
    expect(page.locator(".facet.on")).to_contain_text("ticket")
    assert 0 < page.locator(".result").count() < before
    page.get_by_label("Path").fill("**/nothing.py")
    page.get_by_role("button", name="Apply").click()
    expect(page.locator("h1")).to_have_text("Nothing found")
    page.get_by_role("link", name="Without path: **/nothing.py").click()
    page.locator(".result .main").first.click()
    expect(page.locator(".whole h1")).to_be_visible()


def test_the_tabs_change_the_type_of_search_and_keep_the_question(opened: Opened, server: Running) -> None:
    page = opened(server, "/?q=payments")
    page.keyboard.press("2")
    expect(page.locator(".tabs [aria-current]")).to_have_text("Code")
    expect(page.get_by_role("searchbox")).to_have_value("payments")
    assert set(page.locator(".facts .chip").all_inner_texts()) == {"code"}


def test_everything_can_be_done_by_keys(opened: Opened, server: Running) -> None:
    page = opened(server, "/?q=put_payment&type=code")
    first, second = page.locator(".result").nth(0), page.locator(".result").nth(1)
    page.keyboard.press("j")
    expect(first.locator(".main")).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(second.locator(".main")).to_be_focused()
    page.keyboard.press("k")
    expect(first.locator(".main")).to_be_focused()
    page.keyboard.press("e")
    expect(first.locator(".why .bars")).to_be_visible()
    page.keyboard.press("g")
    expect(first.locator(".opened svg .box.target").first).to_be_visible()
    page.keyboard.press("s")
    expect(first.locator(".opened .similar .result").first).to_be_visible()
    page.keyboard.press("s")
    expect(first.locator("> .opened")).to_be_hidden()
    page.keyboard.press("/")
    expect(page.get_by_role("searchbox")).to_be_focused()
    page.keyboard.type("jkegs?")
    expect(page.get_by_role("searchbox")).to_have_value("jkegs?")
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page.locator(".whole .code tr.hit").first).to_be_visible()


def test_keys_of_one_letter_can_be_turned_off(opened: Opened, server: Running) -> None:
    page = opened(server, "/?q=payments")
    page.keyboard.press("?")
    page.get_by_label("Keys of one letter are shortcuts").uncheck()
    page.keyboard.press("Escape")
    expect(page.locator("#help")).to_be_hidden()
    page.reload()
    page.keyboard.press("j")
    expect(page.locator(".result .main").first).not_to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(page.locator(".result .main").first).to_be_focused()


def test_the_graph_is_walked_within_its_panel(opened: Opened, server: Running) -> None:
    page = opened(server, "/?q=put_payment&type=code&source=shop-code")
    page.keyboard.press("j")
    page.keyboard.press("g")
    panel = page.locator(".result").first.locator(".opened")
    expect(panel.locator("svg")).to_be_visible()
    panel.get_by_role("link", name="Usages").click()
    expect(panel.locator("[aria-current]")).to_have_text("Usages")
    assert "/?q=put_payment" in page.url


def colour_of(page: Page) -> str:
    return page.evaluate("getComputedStyle(document.body).backgroundColor")


def test_light_and_dark_follow_the_system_until_one_chooses(opened: Opened, server: Running) -> None:
    light, dark = (opened(server, "/", color_scheme=scheme) for scheme in ("light", "dark"))
    white, black = colour_of(light), colour_of(dark)
    assert white == "rgb(255, 255, 255)" != black
    light.get_by_role("button", name="light and dark").click()
    assert colour_of(light) == black
    light.goto("/sources")
    assert colour_of(light) == black
    assert light.locator("html").get_attribute("data-theme") == "dark"
    light.get_by_role("button", name="light and dark").click()
    assert colour_of(light) == white


def test_the_page_works_without_scripts(opened: Opened, server: Running) -> None:
    page = opened(server, "/", java_script_enabled=False)
    page.get_by_role("searchbox").fill("put_payment type:code")
    page.get_by_role("button", name="Search").click()
    page.locator(".result summary", has_text="Why").first.click()
    expect(page.locator(".why .bars").first).to_be_visible()
    page.locator(".result .act", has_text="Graph").first.click()
    expect(page.locator("svg .box.target").first).to_be_visible()
    page.go_back()
    page.get_by_role("button", name="Useful", exact=True).first.click()
    expect(page.locator("h1")).to_have_text("Noted: useful")
    page.get_by_role("link", name="Back to the results").click()
    expect(page.locator(".result").first).to_be_visible()


def test_a_judgement_is_shown_and_kept_in_place(opened: Opened, own_world: World) -> None:
    with Running(own_world.settings) as running:
        page = opened(running, "/?q=payments")
        with page.expect_response("**/feedback") as answer:
            page.get_by_role("button", name="Useless").first.click()
        assert answer.value.status == 204
        expect(page.get_by_role("button", name="Useless").first).to_have_attribute("aria-pressed", "true")
        with page.expect_request("**/feedback") as sent:
            page.locator(".result .main").first.click()
        assert "judgement=clicked" in (sent.value.post_data or "")
        expect(page.locator(".whole h1")).to_be_visible()


def test_while_an_answer_takes_long_the_page_says_so(opened: Opened, server: Running) -> None:
    page, held = opened(server), list[Route]()
    page.route("**/?q=slow", lambda route: held.append(route))
    page.get_by_role("searchbox").fill("slow")
    assert page.evaluate(TOLD_AFTER_A_WHILE) == "Still searching…"
    held[0].continue_()
    expect(page.locator("details.summary")).to_be_visible()
    expect(page.locator("#busy")).to_have_text("")


def test_one_signs_in_and_out(opened: Opened, world: World) -> None:
    with Running(world.settings, anonymous="off") as running:
        page = opened(running, "/sign-in")
        page.get_by_label("Token").fill(world.tokens["acme"])
        page.get_by_role("button", name="Sign in").click()
        expect(page.locator(".lead")).to_be_visible()
        cookies = {each["name"]: each for each in page.context.cookies()}
        assert cookies["knowledge_token"]["httpOnly"] and cookies["knowledge_token"]["sameSite"] == "Strict"
        assert "knowledge_token" not in page.evaluate("document.cookie")
        with page.expect_response("**/sign-out") as answer:
            page.get_by_role("button", name="Sign out").click()
        assert answer.value.status == 303
        assert "knowledge_token" not in {each["name"] for each in page.context.cookies()}


def test_the_first_tab_leads_past_the_head(opened: Opened, server: Running) -> None:
    page = opened(server, "/?q=payments")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the results")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#results")).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.locator(".results .summary summary")).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.locator(".result .main").first).to_be_focused()


def test_a_search_and_a_filter_keep_the_focus(opened: Opened, server: Running) -> None:
    page = opened(server)
    page.keyboard.type("payments type:jira")
    page.keyboard.press("Enter")
    expect(page.locator(".result").first).to_be_visible()
    expect(page.get_by_role("searchbox")).to_be_focused()
    page.evaluate(_NEXT_FRAME)  # Chromium drops keys that are pressed before a page is painted
    page.keyboard.type(" late")  # on from where one was
    expect(page.get_by_role("searchbox")).to_have_value("payments type:jira late")
    page.get_by_label("Path").fill("**/*")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("path="))
    expect(page.get_by_label("Path")).to_be_focused()
    chip = page.get_by_role("link", name="Remove the filter type:jira")
    chip.press("Enter")
    expect(chip).to_have_count(0)
    expect(page.get_by_role("searchbox")).to_have_value("payments late")
    expect(page.locator("#results")).to_be_focused()  # what had it is gone


def test_a_result_names_its_type_and_source_which_narrow_the_search(opened: Opened, server: Running) -> None:
    page = opened(server, "/?q=put_payment&type=code")
    facts = page.locator(".result .facts").first
    expect(facts).to_contain_text(re.compile(r"type code source shop-code.* match \d+ %"))
    facts.get_by_role("link", name="shop-code").click()
    expect(page.locator(".facet.on")).to_contain_text("shop-code")
    expect(page.get_by_role("searchbox")).to_have_value("put_payment")


def test_an_example_opens_in_a_tab_of_its_own(opened: Opened, server: Running) -> None:
    page = opened(server)
    with page.context.expect_page() as other:
        page.locator(".examples a").first.click(modifiers=["ControlOrMeta"])
    expect(other.value.locator(".summary h1")).to_be_visible()
    assert other.value.url.startswith(f"{server.url}/?q=")


_NEXT_FRAME = "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True}


def test_the_state_of_a_source_is_seen_on_a_phone(opened: Opened, server: Running, world: World) -> None:
    token = {"Authorization": f"Bearer {world.tokens['operator']}"}
    page = opened(server, "/sources", extra_http_headers=token, **PHONE)
    row = page.get_by_role("row").filter(has_text="shop-code")
    for label in ("State", "Skipped", "Last run"):
        cell = row.locator(f'[data-label="{label}"]')
        box = cell.bounding_box()
        assert box and box["x"] >= 0 and box["x"] + box["width"] <= 390
        assert cell.evaluate("each => getComputedStyle(each, '::before').content") == f'"{label}"'
    assert page.evaluate("document.querySelector('.wide').scrollWidth") <= 390


def test_on_a_phone_chosen_filters_leave_room_for_results(opened: Opened, server: Running) -> None:
    page = opened(server, "/?q=payments&source_type=jira", **PHONE)
    chip = page.get_by_role("link", name="Remove the filter type ticket")
    expect(chip).to_be_in_viewport()
    expect(page.locator(".result .main").first).to_be_in_viewport()
    chip.click()
    expect(page).to_have_url(f"{server.url}/?q=payments")


def test_code_in_a_document_is_as_wide_as_its_tables(
    opened: Opened, tmp_path: Path, embedding_server: OpenAIServer
) -> None:
    project = Project(tmp_path, embedding_by(embedding_server))
    (tmp_path / "docs").mkdir()
    wide = "wide " * 60
    text = f"# Wide\n\n{wide}\n\n| a |\n| --- |\n| {wide.replace(' ', '_')} |\n\n```sh\n{wide}\n```\n"
    (tmp_path / "docs" / "wide.md").write_text(text)
    project.declare("docs", "markdown", tmp_path / "docs")
    assert not project.refresh().failures
    with Running(project.settings) as running:
        page = opened(running, "/doc?id=docs:wide.md", viewport={"width": 1400, "height": 900})
        table, code, prose = (
            page.locator(f".prose > {name}").first.bounding_box() for name in ("table", "pre", "p")
        )
    assert table and code and prose
    assert table["width"] == code["width"] > 1.2 * prose["width"]


def test_no_document_runs_a_script(
    opened: Opened, tmp_path_factory: pytest.TempPathFactory, embedding_server: OpenAIServer
) -> None:
    settings = attacked_by(tmp_path_factory.mktemp("attacked"), embedding_server)
    with Running(settings) as running:
        page = opened(running, "/?q=attack&limit=50")
        addresses = page.locator("main a").evaluate_all("all => all.map((each) => each.getAttribute('href'))")
        assert len(addresses) > 10
        for address in dict.fromkeys(each.partition("#")[0] for each in addresses if each and each[0] == "/"):
            page.goto(address)
        page.goto("/?q=attack&limit=50")
        for link in page.locator(".results > .result > footer > [data-panel]").all():
            link.click()
            page.wait_for_load_state("networkidle")
