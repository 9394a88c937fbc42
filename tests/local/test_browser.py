"""Which program opens the page, and that no command line has the key."""

from __future__ import annotations

import os

import pytest

from ghapp.local.browser import open_in_browser

DESKTOP = {"DISPLAY": ":0"}
ADDRESS = "http://127.0.0.1:8000/?key=secret&x=1"


@pytest.fixture
def opened(tmp_path, monkeypatch):
    """Replaces the desktop's program; returns a function that runs with an environment, and returns what was opened."""

    def run(platform="linux", **environ):
        programs = tmp_path / "programs"
        programs.mkdir(exist_ok=True)
        for name in ("xdg-open", "open"):
            program = programs / name
            program.write_text(
                f'#!/bin/sh\necho "{name} $1$GHAPP_PRIVATE_KEY" > {programs}/called.part; mv {programs}/called.part {programs}/called\n'
            )
            program.chmod(0o700)
        for name in ("DISPLAY", "WAYLAND_DISPLAY", "SSH_CONNECTION"):
            monkeypatch.delenv(name, raising=False)
        for name, value in environ.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("GHAPP_PRIVATE_KEY", "secret")
        monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
        monkeypatch.setattr("sys.platform", platform)
        return open_in_browser(ADDRESS, tmp_path), programs / "called"

    return run


@pytest.mark.parametrize(
    ("platform", "environ", "program"),
    [
        ("linux", DESKTOP, "xdg-open"),
        ("linux", {"WAYLAND_DISPLAY": "wayland-0"}, "xdg-open"),
        ("darwin", {}, "open"),
        ("linux", {}, None),
        ("linux", DESKTOP | {"SSH_CONNECTION": "192.0.2.1 5 192.0.2.2 22"}, None),
        ("darwin", {"SSH_CONNECTION": "192.0.2.1 5 192.0.2.2 22"}, None),
    ],
    ids=["X11", "Wayland", "macOS", "no desktop", "X11 over SSH", "macOS over SSH"],
)
def test_the_desktop_opens_a_file_for_its_owner_alone_that_leads_to_the_address(
    opened, tmp_path, platform, environ, program
):
    process, called = opened(platform, **environ)
    page = tmp_path / "open.html"
    if program is None:
        assert process is None
        assert not page.exists()
        return
    process.wait(10)
    assert called.read_text() == f"{program} {page.as_uri()}\n", "other users see command lines"
    assert page.stat().st_mode & 0o777 == 0o600
    assert 'content="0;url=http://127.0.0.1:8000/?key=secret&amp;x=1"' in page.read_text()


def test_a_file_that_cannot_be_written_is_no_error(opened, tmp_path):
    (tmp_path / "open.html").mkdir()
    process, _ = opened(**DESKTOP)
    assert process is None
