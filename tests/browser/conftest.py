"""Chromium, where there is one; where there has to be one, its absence is a failure."""

from __future__ import annotations

import os
import shutil

import pytest
from playwright.sync_api import sync_playwright


@pytest.fixture(scope="module")
def chromium():
    # Not for the whole session: while it is open its event loop runs in this thread, and async tests cannot.
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None and os.environ.get("TESTS_NEED_BROWSER"):
        pytest.fail("TESTS_NEED_BROWSER is set, and there is no chromium on PATH")
    if path is None:
        pytest.skip("there is no chromium on PATH; install it to see the pages in a browser")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()
