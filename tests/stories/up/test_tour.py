"""`make run` in a deployment's environment, its first minute, and each command line of docs/tour.md against it.

One `ghapp up --sandbox`, whose scenarios are started by their keys, in the order of the tests.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from ghapp.local.scenarios import HEAL, HEAL_KEY, KEYS, SCENARIOS
from tests.manifests.rendered import ROOT
from tests.support.commands import inherited
from tests.support.ports import free_port
from tests.support.terminal import OWN_TERMINAL, Terminal
from tests.support.waiting import COMMAND_PAUSE, WITHIN_SECONDS, wait_for

TOUR = (ROOT / "docs" / "tour.md").read_text()
COMMANDS = re.findall(r"^\$ (.+)$", TOUR, re.MULTILINE)
RUNS = [each for each in COMMANDS if each.startswith("make ")]
SOURCED, *TYPED = [each for each in COMMANDS if not each.startswith("make ")]

STRANGE = "theirs.invalid"
DEPLOYMENT = {
    "GHAPP_CONFIG": f"/nowhere/{STRANGE}",
    "GHAPP_STATE_DIR": f"/nowhere/{STRANGE}",
    "GHAPP_APP_ID": "4711",
    "GHAPP_NOTIFY_URLS": f"json://{STRANGE}",
    "GHAPP_PUBLIC_URL": f"https://{STRANGE}",
    "GHAPP_LOKI_URL": f"http://{STRANGE}",
    "GHAPP_URL": f"https://{STRANGE}",
    "GHAPP_TOKEN": STRANGE,
    "KUBECONFIG": f"/nowhere/{STRANGE}",
    "KUBERNETES_SERVICE_HOST": STRANGE,
    "ALL_PROXY": f"socks5://{STRANGE}",
    "SSL_CERT_FILE": f"/nowhere/{STRANGE}",
}
"""What the shell exports in which it is started: none of these addresses is used, and none is needed."""

EXPECTED = {
    "ghapp runners --org acme --all": (0, "k8s-arc"),
    "ghapp explain acme NAME": (0, "is healed: RegistrationInvalidated"),
    "ghapp incidents --org acme": (0, "lost in linux-4vcpu"),
    'ghapp pause acme --why "a tour"': (0, ""),
    "ghapp resume acme": (0, ""),
    "ghapp deaths --org acme --cause host-oom": (0, "OOMKilled"),
    "ghapp doctor": (0, "acme: reaper"),
    "ghapp runners --org acme --state offline": (0, "OfflineTooLong"),
    "ghapp runners --org acme": (0, "kubectl -n runners delete ephemeralrunner k8s-arc-"),
    'curl -s "$GHAPP_PUBLIC_URL/readyz"': (0, "PermissionMissing"),
    "ghapp jobs --unserved": (0, "NoRunnerWithLabels"),
    "ghapp why acme JOB": (0, "change linux-4vpcu to linux-4vcpu in runs-on"),
    "ghapp gate acme rollout pink": (1, "purple"),
    "ghapp gate acme rollout pink --timeout 60": (0, "passed"),
}
"""The exit code of each line, and what it shows when its scenario has taken effect."""


BY_KEY = {**dict(zip(KEYS, SCENARIOS, strict=True)), HEAL_KEY: HEAL}


class Site:
    """`make run` in a terminal whose shell has the variables of a deployment, and a second terminal without them."""

    def __init__(self, folder):
        self.folder, self.port, self.terminal = folder, free_port(), Terminal()
        self.listener = socket.socket()  # no process may connect
        self.listener.bind(("127.0.0.1", 0))
        self.listener.listen()
        self.listener.setblocking(False)
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        self.environ = inherited() | {"COLUMNS": "250", "LINES": "60", "TERM": "xterm", "TMPDIR": str(folder)}
        theirs = {"GHAPP_REDIS_URL": f"redis://{self.address}/0", "HTTP_PROXY": f"http://{self.address}"}
        self.exported = self.environ | DEPLOYMENT | theirs
        screen = self.terminal.theirs
        command = [sys.executable, "-m", "ghapp", "up", "--sandbox", "--port", str(self.port)]
        self.process = subprocess.Popen(
            [sys.executable, "-c", OWN_TERMINAL, *command],
            stdin=screen,
            stdout=screen,
            stderr=screen,
            env=self.exported,
            start_new_session=True,
        )

    def press(self, name):
        """Starts a scenario by its key, and waits until the terminal names what happened."""
        ((key, scenario),) = [(key, each) for key, each in BY_KEY.items() if each.name == name]
        first = re.split(r"\{0[^}]*\}", scenario.look)[0].strip()
        os.write(self.terminal.ours, key.encode())
        assert wait_for(lambda: first in self.terminal.text), (name, self.terminal.text[-3000:])

    def run(self, line, environ=None):
        """The exit code and the output of a line, typed in the second terminal."""
        script, environ = f"{SOURCED} && {self.filled(line)}", environ or self.environ
        done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, env=environ, check=False)
        return done.returncode, done.stdout + done.stderr

    def filled(self, line):
        """The line with the name and the job that the first terminal shows."""
        found = {
            "NAME": re.search(r"runner\.replace +(\S+)", self.terminal.text),
            "JOB": re.search(r"ghapp why acme (\d+)", self.terminal.text),
        }
        for word, match in found.items():
            line = line.replace(word, match[1] if match else word)
        return line


@pytest.fixture(scope="module")
def started(tmp_path_factory):
    site = Site(tmp_path_factory.mktemp("tour"))
    try:
        yield site
    finally:
        if site.process.poll() is None:
            site.process.send_signal(signal.SIGINT)
            site.process.wait(60)


@pytest.fixture(scope="module")
def site(started):
    """After its first minute, with the scenarios of the tour."""
    for name in ("loss", "oom", "phantom", "leak", "gate", "no-label"):
        started.press(name)
    return started


pytestmark = pytest.mark.xdist_group("tour")


def check_runs(page):
    """The text of all, from the page that lists them; several kinds may be posted in a repository, in any order."""
    listed = httpx.get(page, timeout=30)
    numbers = set(re.findall(r'href="[^"]*/runs/(\d+)"', listed.text))
    return "".join(httpx.get(f"{page}/{number}", timeout=30).text for number in numbers)


def test_within_a_minute_a_stranger_sees_an_incident_and_its_recovery(started):
    terminal = started.terminal
    pasted = wait_for(lambda: re.search(r"curl -H 'Authorization: (Bearer \S+)' '(\S+)\?limit=1'", terminal.text))
    assert pasted, terminal.text[-2000:]
    authorization, url = pasted.groups()

    def lost():
        try:
            answer = httpx.get(url, params={"state": "invalidated"}, headers={"authorization": authorization})
        except httpx.TransportError:  # the terminal is drawn before the roles listen, and may be drawn slowly
            return None
        rows = answer.json()["runners"] if answer.status_code == 200 else []
        return rows if len(rows) == 12 else None

    rows = wait_for(lost)
    assert rows, terminal.text[-2000:]
    assert {row["pool"] for row in rows} == {"linux-4vcpu"}
    assert wait_for(lambda: not any(row["replace"] for row in lost() or [{"replace": True}])), "all were accepted"
    ended = r"12 runners lost in linux-4vcpu, (healed in|over after) "  # churn may hide a successor
    for words in ("12 registrations were deleted", r"runner\.replace", ended):
        # On a quiet machine the twelve have healed after half a minute; here four other stories run.
        assert wait_for(lambda words=words: re.search(words, terminal.text), 3 * WITHIN_SECONDS), terminal.text[-2000:]
    checks = re.search(r"checks +(http://\S+/acme/.github/runs)", terminal.text)[1]
    link = f'href="http://127.0.0.1:{started.port}/orgs/acme'

    def is_reported():
        text = check_runs(checks)
        return re.search(r"Healed: \d+ runners", text) and link in text

    assert wait_for(is_reported), check_runs(checks)
    of_the_job = checks.replace(".github", "api")
    # By its code: the title counts the reasons where other jobs of the commit wait as well, as on a slow machine.
    assert wait_for(lambda: "NoRunnerWithLabels" in check_runs(of_the_job)), "and the job's author"
    seen = []

    def is_all_well():
        seen.append(started.run("ghapp doctor --problems"))
        return seen[-1][0] == 0 and seen[-1][1].endswith(
            " checks of the set-up: all well; for the fleet see `ghapp runners`\n"
        )

    # Until the fuse has healed and deliveries have come again.
    assert wait_for(is_all_well, 2 * WITHIN_SECONDS, COMMAND_PAUSE), seen[-1]


def test_a_deployment_s_exported_variables_reach_none_of_its_roles(started):
    children = Path(f"/proc/{started.process.pid}/task/{started.process.pid}/children").read_text().split()
    environs = {pid: Path(f"/proc/{pid}/environ").read_text(errors="replace") for pid in children}
    roles = {pid: text for pid, text in environs.items() if "GHAPP_LOG_FORMAT=json" in text}
    assert len(roles) == 5, "web, two workers, clock and watch"
    assert [pid for pid, text in roles.items() if STRANGE in text or started.address in text] == []
    code, printed = started.run("env && ghapp runners --state invalidated", started.exported)
    assert (code, "GHAPP_REDIS_URL=unix://" in printed) == (0, True)
    assert [line for line in printed.splitlines() if STRANGE in line] == [], "of the deployment"


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


def test_a_failed_gate_is_the_same_on_every_surface(site):
    """The deploy of the scenario is reported as by a pipeline: its commit is known, and bears the check run."""
    terminal, key = site.terminal, r"http://127\.0\.0\.1:\d+/\?key=\S+"
    words = re.compile(r"The gate of shard pink of rollout has not passed since the deploy of ([0-9a-f]{7}): ")
    shown = wait_for(lambda: words.search(site.run("ghapp runners --org acme")[1]), WITHIN_SECONDS, COMMAND_PAUSE)
    assert shown, site.run("ghapp runners --org acme")
    checks = re.search(r"checks +(http://\S+/acme/.github/runs)", terminal.text)[1].replace(".github", "infra")
    assert wait_for(lambda: "Runner gate: pink does not pass yet" in check_runs(checks))
    with httpx.Client(follow_redirects=True, timeout=30) as browser:
        browser.get(re.search(key, terminal.text)[0])
        page = browser.get(f"http://127.0.0.1:{site.port}/orgs/acme").text
        gate = browser.get(f"http://127.0.0.1:{site.port}/orgs/acme/gate").text
    assert shown[0].removesuffix(": ") in page
    assert "rollout/pink (inactive) does not pass" in gate
    assert shown[1] in gate, "the deployed commit"


def minutes_later(line):
    """A phantom is reported after two minutes, in which others run; a permission is taken away, and at last all heals."""
    return (line.endswith("--timeout 60"), line.startswith("curl"), "kubectl" in EXPECTED.get(line, (0, ""))[1])


@pytest.mark.parametrize("line", sorted(TYPED, key=minutes_later))
def test_each_line_shows_what_the_tour_says(site, line):
    if line.startswith("curl"):
        site.press("permission")
    if line.endswith("--timeout 60"):
        site.press("heal")
    expected, seen = EXPECTED[line], []

    def shown():
        seen.append(site.run(line))
        return seen[-1][0] == expected[0] and expected[1] in seen[-1][1]

    # The gate looks for a minute, and the permission may be withheld for most of it.
    is_slow = "kubectl" in expected[1] or line.endswith("--timeout 60")
    seconds, pause = (240, 5 * COMMAND_PAUSE) if is_slow else (WITHIN_SECONDS, COMMAND_PAUSE)
    assert wait_for(shown, seconds, pause), seen[-1]


def test_ctrl_c_leaves_nothing(site):
    os.write(site.terminal.ours, b"\x03")
    assert site.process.wait(60) == 0  # each of four processes may take ten seconds, on a machine that is busy
    assert list(site.folder.iterdir()) == []
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"http://127.0.0.1:{site.port}/livez")
    with pytest.raises(BlockingIOError):
        site.listener.accept()
