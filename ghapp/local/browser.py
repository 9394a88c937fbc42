"""Opens the page in a browser of this desktop, if there is one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from html import escape
from pathlib import Path

from ghapp.local.supervised_process import without_our_variables

PAGE = """<!doctype html>
<meta charset="utf-8">
<title>ghapp</title>
<meta http-equiv="refresh" content="0;url={address}">
<a href="{address}">Continue</a>
"""


def open_in_browser(address: str, folder: Path) -> subprocess.Popen[bytes] | None:
    """Opens an address that contains a key; returns the process that does, None without a desktop.

    All users of a machine see the command lines. So the browser gets a file of this folder, for its owner alone, that
    leads to the address.
    """
    if (opener := _opener(os.environ, sys.platform)) is None:
        return None
    with suppress(OSError):  # the address is printed in any case
        page = folder / "open.html"
        page.touch(mode=0o600)
        page.write_text(PAGE.format(address=escape(address)))
        return subprocess.Popen(  # noqa: S603 - a constant name
            [opener, page.as_uri()],
            env=without_our_variables(os.environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    return None


def _opener(environ: Mapping[str, str], platform: str) -> str | None:
    """Returns the program that opens files as the desktop does; None without a desktop, or over SSH."""
    if "SSH_CONNECTION" in environ:
        return None
    if platform == "darwin":
        return shutil.which("open")
    has_desktop = bool(environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY"))
    return shutil.which("xdg-open") if has_desktop else None
