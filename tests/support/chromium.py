"""Finds Chromium on PATH."""

from __future__ import annotations

import shutil

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
"""The headless shell first: it needs a third of the CPU."""


def chromium_path() -> str | None:
    """Returns the path of the first of `NAMES` on PATH, or None."""
    return next((path for path in map(shutil.which, NAMES) if path), None)
