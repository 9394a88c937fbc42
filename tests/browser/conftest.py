"""Chromium, where there is one; where there has to be one, its absence is a failure."""

from __future__ import annotations

import os

import pytest
from playwright.sync_api import sync_playwright

from tests.support.chromium import chromium_path


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    # Not for the whole session: while it is open its event loop runs in this thread, and async tests cannot.
    path = chromium_path()
    if path is None and os.environ.get("TESTS_NEED_BROWSER"):
        pytest.fail("TESTS_NEED_BROWSER is set, and there is no Chromium on PATH")
    if path is None:
        pytest.skip("there is no Chromium on PATH; install it to see the pages in a browser")
    with sync_playwright() as playwright:
        # What it leaves in its folder of temporary files, where it was stopped under load, goes with the tests'.
        environ = {**os.environ, "TMPDIR": str(tmp_path_factory.mktemp("chromium"))}
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"], env=environ)
        yield browser
        browser.close()
