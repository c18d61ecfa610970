"""Chromium, for tests of the page as a person uses it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright

_CHROMIUM = os.environ.get("KNOWLEDGE_TEST_CHROMIUM") or next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)

IN_CHROMIUM = [
    pytest.mark.slow,
    pytest.mark.skipif(
        _CHROMIUM is None, reason="no Chromium: install it, or name it in KNOWLEDGE_TEST_CHROMIUM"
    ),
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=_CHROMIUM, args=["--no-sandbox"])
        yield launched
        launched.close()
