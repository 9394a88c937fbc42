"""Chromium, where there is one; where there has to be one, its absence is a failure."""

from __future__ import annotations

import os

import pytest
from playwright.sync_api import sync_playwright

from tests.support.chromium import chromium_path


@pytest.fixture(scope="module")
def chromium():
    # Not for the whole session: while it is open its event loop runs in this thread, and async tests cannot.
    path = chromium_path()
    if path is None and os.environ.get("TESTS_NEED_BROWSER"):
        pytest.fail("TESTS_NEED_BROWSER is set, and there is no Chromium on PATH")
    if path is None:
        pytest.skip("there is no Chromium on PATH; install it to see the pages in a browser")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()
