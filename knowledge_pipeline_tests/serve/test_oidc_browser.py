"""Signing in at an identity server of another site, in Chromium, as a person does."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from knowledge_pipeline_tests.fakes.identity_server import IdentityServer
from knowledge_pipeline_tests.serve.chromium import IN_CHROMIUM, browser
from knowledge_pipeline_tests.serve.oidc_world import people, trusting
from knowledge_pipeline_tests.serve.running import Running
from knowledge_pipeline_tests.serve.world import World

__all__ = ["browser"]

pytestmark = IN_CHROMIUM
SHOTS = os.environ.get("KNOWLEDGE_TEST_SHOTS")  # a folder for pictures, for people to look at


@pytest.mark.parametrize(("scheme", "script"), [("light", True), ("dark", False)])
def test_a_person_signs_in_searches_and_signs_out(
    world: World, browser: Browser, scheme: str, script: bool
) -> None:
    with IdentityServer(host="localhost") as identity:
        identity.people = people()
        with Running(world.settings, anonymous="off", oidc=trusting(identity)) as running:
            context = browser.new_context(
                base_url=running.url, color_scheme=scheme, java_script_enabled=script
            )
            page = context.new_page()
            troubles: list[str] = []
            page.on("pageerror", lambda error: troubles.append(str(error)))
            page.goto("/?q=double+charge")
            shoot(page, f"1-sign-in-{scheme}")
            page.get_by_role("link", name=f"Sign in with {identity.address.removeprefix('http://')}").click()
            page.get_by_role("link", name="Continue as ann").click()
            expect(page.locator(".result").first).to_be_visible()
            assert page.url == f"{running.url}/?q=double+charge"
            assert "canaryacmetickets" in page.content()
            assert not [word for word in world.canaries_hidden_from("ann") if word in page.content()]
            shoot(page, f"2-results-{scheme}")
            page.get_by_role("button", name="Sign out").click()
            expect(page.get_by_role("status").filter(has_text="You are signed out here")).to_be_visible()
            shoot(page, f"3-signed-out-{scheme}")
            page.goto("/?q=double+charge")
            expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
            assert "canary" not in page.content()
            page.get_by_role("link", name="Sign in with").click()
            page.get_by_role("link", name="Refuse").click()
            expect(page.get_by_role("alert")).to_contain_text("access_denied")
            shoot(page, f"4-refused-{scheme}")
            context.close()
            assert troubles == []


def shoot(page, name: str) -> None:
    if SHOTS:
        page.screenshot(path=str(Path(SHOTS) / f"{name}.png"))
