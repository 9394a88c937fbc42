"""How long each surface takes to show an incident of the sandbox, and to show it no more.

Incident × surface × seconds, from the moment at which the sandbox began it. Every surface begins with the same headline:
the API, the page, `ghapp runners`, the check run, and the lines that `ghapp up` prints where there is no terminal, which
show the worst of several alone. Sweeps are four seconds apart there, a confirmation takes four more.
"""

from __future__ import annotations

import html
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx

from tests.bench.figure import Figure
from tests.support.ports import free_port

POLL_SECONDS = 0.5
MOST_SECONDS = 150.0
SEEN_WITHIN_SECONDS = 40.0
"""Bound of the slowest surface: two sweeps, a confirmation, and the fifteen seconds of a check run."""


PHANTOM_WITHIN_SECONDS = 140.0
"""A phantom is reported once each check has found it for 100 s, as `docs/glossary.md` says."""


class Incident(NamedTuple):
    """An incident: the control that begins it, the words of its headline, whether it ends by itself, and the bound.

    `unseen_by`: the surfaces that cannot show it.
    """

    name: str
    control: str
    arguments: Mapping[str, Any]
    words: str
    ends: bool = True
    seen_within_seconds: float = SEEN_WITHIN_SECONDS
    unseen_by: tuple[str, ...] = ()


INCIDENTS = (
    Incident(
        "permission gone for 45 s",
        "withhold-permission",
        {"seconds": 45},
        "may not read the organization|cannot be read",
    ),
    Incident(
        "GitHub 502 for 45 s",
        "fault",
        {"status": 502, "seconds": 45},
        "does not answer, or answers|cannot be read",
        unseen_by=("check run",),  # GitHub takes none while it answers 502
    ),
    Incident("12 lost", "lose", {"count": 12, "pool": "linux-4vcpu"}, r"runners? (of linux-4vcpu (is|are) )?lost"),
    Incident("60 lost", "lose", {"count": 60, "pool": "linux-4vcpu"}, r"runners? (of linux-4vcpu (is|are) )?lost"),
    Incident("a pod lost", "lose-pod", {}, "counts? as (a )?runners?|phantom", False, PHANTOM_WITHIN_SECONDS),
    Incident(
        "a job without a runner",
        "queue",
        {"labels": ["linux-4vpcu"]},
        "no pool has (its|their) labels|without a runner",
        ends=False,
    ),
)


class Site:
    """`ghapp up --sandbox`, and each surface as text."""

    def __init__(self, output: Path, port: int) -> None:
        self._output, self._base = output, f"http://127.0.0.1:{port}"
        self._github = self._printed(r"(http://127\.0\.0\.1:\d+)/acme/\.github/runs")
        self._token = self._printed(r"Bearer (\S+?)'")
        self._environment = self._printed(r"\. (\S+/env) &&")
        self._browser = httpx.Client(timeout=10, follow_redirects=True)
        self._browser.get(f"{self._base}/", params={"key": self._printed(r"\?key=(\S+)")})

    def printed(self) -> str:
        """All that it printed."""
        return re.sub(r"\x1b\[[0-9;]*m", "", self._output.read_text())

    def _printed(self, pattern: str) -> str:
        """The group of the pattern in what it printed; IndexError if that is not there."""
        return str(re.findall(pattern, self.printed())[0])

    def control(self, incident: Incident) -> None:
        """Begins the incident."""
        url = f"{self._github}/_sandbox/orgs/acme/{incident.control}"
        httpx.post(url, json=dict(incident.arguments), timeout=10).raise_for_status()

    def api(self) -> str:
        """The headlines of the API."""
        answer = httpx.get(f"{self._base}/v1/orgs/acme/overview", headers={"Authorization": f"Bearer {self._token}"})
        return " ".join(each["text"] for each in answer.raise_for_status().json()["headlines"])

    def page(self) -> str:
        """The overview's banner and what is open."""
        text = html.unescape(self._browser.get(f"{self._base}/orgs/acme").raise_for_status().text)
        return text[text.index("Current state") : text.index('id="pools"')]

    def command(self) -> str:
        """The lines of `ghapp runners` before its table."""
        script = f". {shlex.quote(self._environment)} && {shlex.quote(sys.executable)} -m ghapp runners --org acme"
        done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True)
        return re.split(r"^ \d+ (?:of|runners)", done.stdout, maxsplit=1, flags=re.MULTILINE)[0]

    def check_run(self) -> str:
        """The title and the text of "Runner health"."""
        return html.unescape(httpx.get(f"{self._github}/acme/.github/runs").raise_for_status().text)

    def line(self) -> str:
        """The last headline that `ghapp up` printed."""
        found = re.findall(r"^\d\d:\d\d:\d\d  acme: (.*)$", self.printed(), re.MULTILINE)
        return found[-1] if found else ""

    @property
    def surfaces(self) -> dict[str, Callable[[], str]]:
        """Each surface by its name."""
        return {
            "API": self.api,
            "page": self.page,
            "ghapp runners": self.command,
            "check run": self.check_run,
            "ghapp up": self.line,
        }


def measure(folder: Path) -> list[Figure]:
    """Begins one incident after the other, and measures each surface."""
    with _site(folder) as site:
        return [figure for incident in INCIDENTS for figure in _of(site, incident)]


def _of(site: Site, incident: Incident) -> list[Figure]:
    is_shown = re.compile(incident.words).search
    surfaces = {name: read for name, read in site.surfaces.items() if name not in incident.unseen_by}
    begun, first, last = time.monotonic(), dict[str, float](), dict[str, float]()
    site.control(incident)
    while time.monotonic() - begun < MOST_SECONDS:
        shown = {name: bool(is_shown(read())) for name, read in surfaces.items()}
        passed = time.monotonic() - begun
        for name, it_is in shown.items():
            if it_is:
                first.setdefault(name, passed)
                last[name] = passed
        is_everywhere = first.keys() == surfaces.keys()
        if is_everywhere and (not incident.ends or not any(shown.values())):
            break
        time.sleep(POLL_SECONDS)
    return [
        Figure(
            f"{incident.name}: {name}",
            f"{first[name]:.0f} s" + (f", until {last[name]:.0f} s" if incident.ends else "")
            if name in first
            else "never",
            first.get(name, MOST_SECONDS),
            most=incident.seen_within_seconds if name != "ghapp up" else None,
            unit=" s",
            note="first sight" + (", and last" if incident.ends else ""),
        )
        for name in surfaces
    ]


@contextmanager
def _site(folder: Path) -> Iterator[Site]:
    port, output = free_port(), folder / "terminal"
    given = {name: value for name, value in os.environ.items() if not name.startswith("GHAPP_")}
    command = [
        sys.executable,
        "-m",
        "ghapp",
        "up",
        "--sandbox",
        "--scenario",
        "oom",
        "--no-browser",
        "--port",
        str(port),
    ]
    with output.open("wb") as out:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=given | {"COLUMNS": "400"}
        )
    try:
        deadline = time.monotonic() + 60
        while "runners are healthy" not in output.read_text():
            if time.monotonic() > deadline:
                raise RuntimeError(output.read_text())
            time.sleep(POLL_SECONDS)
        time.sleep(30)  # until the first check run is posted, and pods are seen
        yield Site(output, port)
    finally:
        process.terminate()  # a bench in the background has SIGINT ignored, and so has what it starts
        process.wait(60)
