"""Each command line of docs/tour.md, run against one `ghapp up --sandbox` while its scenarios are started by their keys."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import httpx
import pytest

from ghapp.local.scenarios import HEAL, HEAL_KEY, KEYS, SCENARIOS
from tests.manifests.rendered import ROOT
from tests.stories.test_up import COMMAND_PAUSE, OWN_TERMINAL, WITHIN_SECONDS, Terminal, wait_for
from tests.support.ports import free_port

TOUR = (ROOT / "docs" / "tour.md").read_text()
COMMANDS = re.findall(r"^\$ (.+)$", TOUR, re.MULTILINE)
RUNS = [each for each in COMMANDS if each.startswith("make ")]
SOURCED, *TYPED = [each for each in COMMANDS if not each.startswith("make ")]

EXPECTED = {
    "ghapp runners --org acme --all": (0, "k8s-arc"),
    "ghapp explain acme NAME": (0, "RegistrationInvalidated"),
    'ghapp pause acme --why "a tour"': (0, ""),
    "ghapp resume acme": (0, ""),
    "ghapp deaths --org acme --cause host-oom": (0, "OOMKilled"),
    "ghapp doctor": (0, "acme: reaper"),
    "ghapp runners --org acme --state offline": (0, "OfflineTooLong"),
    "ghapp runners --org acme": (0, "kubectl -n runners delete ephemeralrunner k8s-arc-"),
    "curl -s http://127.0.0.1:8000/readyz": (0, "PermissionMissing"),
    "ghapp jobs --unserved": (0, "NoRunnerWithLabels"),
    "ghapp why acme JOB": (0, "change linux-4vpcu to linux-4vcpu in runs-on"),
    "ghapp gate acme rollout pink": (1, "purple"),
    "ghapp gate acme rollout pink --timeout 60": (0, "passed"),
}
"""The exit code of each line, and what it shows when its scenario has taken effect."""


BY_KEY = {**dict(zip(KEYS, SCENARIOS, strict=True)), HEAL_KEY: HEAL}


class Site:
    """`make run` in a terminal, and a second terminal with its variables."""

    def __init__(self, folder):
        self.folder, self.port, self.terminal = folder, free_port(), Terminal()
        environ = {name: value for name, value in os.environ.items() if not name.startswith("GHAPP_")}
        self.environ = environ | {"COLUMNS": "250", "LINES": "60", "TERM": "xterm", "TMPDIR": str(folder)}
        theirs = self.terminal.theirs
        command = [sys.executable, "-m", "ghapp", "up", "--sandbox", "--port", str(self.port)]
        self.process = subprocess.Popen(
            [sys.executable, "-c", OWN_TERMINAL, *command],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=self.environ,
            start_new_session=True,
        )

    def press(self, name):
        """Starts a scenario by its key, and waits until the terminal names what happened."""
        ((key, scenario),) = [(key, each) for key, each in BY_KEY.items() if each.name == name]
        first = re.split(r"\{0\}", scenario.look)[0].strip()
        os.write(self.terminal.ours, key.encode())
        assert wait_for(lambda: first in self.terminal.text), (name, self.terminal.text[-3000:])

    def run(self, line):
        """The exit code and the output of a line, typed in the second terminal."""
        script = f"{SOURCED} && {self.filled(line)}"
        done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, env=self.environ, check=False)
        return done.returncode, done.stdout + done.stderr

    def filled(self, line):
        """The line with the name and the job that the first terminal shows, and the port of this run."""
        found = {
            "NAME": re.search(r"runner\.replace +(\S+)", self.terminal.text),
            "JOB": re.search(r"ghapp why acme (\d+)", self.terminal.text),
        }
        for word, match in found.items():
            line = line.replace(word, match[1] if match else word)
        return line.replace("127.0.0.1:8000", f"127.0.0.1:{self.port}")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tour")
    site = Site(folder)
    try:
        assert wait_for(lambda: "registered" in site.terminal.text), site.terminal.text[-3000:]
        for name in ("loss", "oom", "phantom", "leak", "gate", "no-label"):
            site.press(name)
        assert wait_for(lambda: "runner.replace" in site.terminal.text), site.terminal.text[-3000:]
        yield site
    finally:
        os.write(site.terminal.ours, b"\x03")
        code = site.process.wait(30)
    assert code == 0
    assert list(folder.iterdir()) == []


pytestmark = pytest.mark.xdist_group("tour")


def test_every_line_of_the_tour_is_known_here():
    assert [*EXPECTED] == TYPED
    assert re.findall(r"^## \d (\S+)$", TOUR, re.MULTILINE) == [each.name for each in SCENARIOS]


@pytest.mark.parametrize("line", RUNS)
def test_make_run_starts_the_sandbox_with_its_scenario(line):
    command = ["sh", "-c", f"{line} --dry-run -o .venv/.installed"]
    environ = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}  # of `make test`
    done = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, check=True)
    scenario = re.search(r"SCENARIO=(\S+)", line)
    expected = "ghapp up --sandbox" + (f" --scenario {scenario[1]}" if scenario else "")
    assert done.stdout.splitlines()[-1].rstrip().endswith(expected)


@pytest.mark.parametrize("line", TYPED)
def test_each_line_shows_what_the_tour_says(site, line):
    if line.startswith("curl"):
        site.press("permission")
    if line.endswith("--timeout 60"):
        site.press("heal")
    expected, seen = EXPECTED[line], []

    def shown():
        seen.append(site.run(line))
        return seen[-1][0] == expected[0] and expected[1] in seen[-1][1]

    # A phantom is reported after two minutes, and all others at once.
    assert wait_for(shown, 240 if "kubectl" in expected[1] else WITHIN_SECONDS, COMMAND_PAUSE), seen[-1]


def test_check_runs_link_to_the_page(site):
    _, web = site.run("echo $GHAPP_GITHUB_WEB_URL")
    checks = f"{web.strip()}/acme/.github/runs"
    page = f'href="http://127.0.0.1:{site.port}/orgs/acme"'

    def links():
        numbers = re.findall(r'href="[^"]*/runs/(\d+)"', httpx.get(checks, timeout=30).text)
        return any(page in httpx.get(f"{checks}/{number}", timeout=30).text for number in numbers)

    assert wait_for(links)
