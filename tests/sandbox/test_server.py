from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import time

import httpx
import pytest

from ghapp.sandbox import OrgConfig, SandboxConfig, SandboxServer, pools_of
from tests.sandbox.clients import app_client, mint


async def test_async_code_can_use_it_alike():
    async with SandboxServer(SandboxConfig(quiet=True)) as sandbox:
        async with httpx.AsyncClient(base_url=sandbox.url) as client:
            assert (await client.get("/_sandbox/account")).status_code == 200
        assert len(sandbox.control.lose("acme", count=2)) == 2


def test_a_control_called_before_the_start_raises_with_a_fix():
    server = SandboxServer()
    with pytest.raises(RuntimeError, match="with SandboxServer"):
        server.control.quiet()
    server.stop()


def test_what_breaks_in_the_background_is_raised_at_the_end(monkeypatch):
    server = SandboxServer()
    monkeypatch.setattr(server.world, "tick", lambda: 1 / 0)
    server.start()
    with pytest.raises(ExceptionGroup) as broken:
        server.stop()
    assert broken.group_contains(ZeroDivisionError)


def test_a_path_that_is_nothing_is_404_in_githubs_shape(sandbox):
    for path in ("/nothing", "/api/v3/nothing"):
        answer = httpx.get(sandbox.url + path)
        assert (answer.status_code, answer.json()["message"]) == (404, "Not Found")


def test_time_passes_by_the_wall_clock_when_it_ticks():
    with SandboxServer() as sandbox:
        deadline = time.time() + 10
        while not sandbox.fleet.jobs:
            assert time.time() < deadline
            time.sleep(0.02)
        assert len(sandbox.fleet.roster.registered) == 300


async def test_a_hundred_pages_at_100_ms_ten_at_a_time_take_less_than_one_after_the_other():
    config = SandboxConfig(orgs=(OrgConfig(pools=pools_of(10_000)),), quiet=True, latency_seconds=0.1)
    async with SandboxServer(config) as sandbox:
        headers = {"authorization": f"token {mint(sandbox)}"}
        turns = asyncio.Semaphore(10)
        async with httpx.AsyncClient(base_url=sandbox.url, headers=headers) as client:

            async def page(number):
                async with turns:
                    query = {"per_page": 100, "page": number}
                    return (await client.get("/orgs/acme/actions/runners", params=query)).json()["runners"]

            started = time.perf_counter()
            pages = await asyncio.gather(*(page(number) for number in range(1, 101)))
            elapsed = time.perf_counter() - started
    assert len({runner["id"] for runners in pages for runner in runners}) == 10_000
    assert elapsed < 100 * 0.1, "the least time of sequential requests"


def test_as_a_process_it_prints_its_address_and_ends_on_a_signal(tmp_path):
    config = tmp_path / "sandbox.json"
    config.write_text(json.dumps({"quiet": True, "orgs": [{"login": "umbrella"}]}))
    command = [sys.executable, "-m", "ghapp.sandbox", "--port", "0", "--config", str(config)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            ready = json.loads(process.stdout.readline())
            assert ready["installations"].keys() == {"umbrella"}
            assert httpx.get(f"{ready['url']}/_sandbox").json() == ready
            process.send_signal(signal.SIGTERM)
            assert process.wait(5) == 0
        finally:
            process.kill()


@pytest.mark.parametrize("expected", ["{", '{"sped": 2}', '{"orgs": 1}', '{"host": "192.0.2.1"}'])
def test_a_configuration_that_cannot_be_is_refused_in_one_line(expected):
    command = [sys.executable, "-m", "ghapp.sandbox", "--config", "-"]
    done = subprocess.run(command, input=expected, capture_output=True, text=True, check=False, timeout=30)
    assert done.returncode == 2
    assert done.stderr.startswith("the sandbox cannot start: ")
    assert len(done.stderr.splitlines()) == 1


def test_a_sandbox_without_an_app_reports_it():
    with SandboxServer(SandboxConfig(app=False, quiet=True)) as sandbox:
        with pytest.raises(LookupError, match="no App yet"):
            _ = sandbox.app.id
        assert "app_id" not in sandbox.describe()


def test_an_app_sees_all_its_installations(sandbox):
    with app_client(sandbox, base=sandbox.api_url) as app:
        logins = {installation["account"]["login"] for installation in app.get("app/installations").json()}
        assert logins == {"acme", "globex"}
        assert app.get("orgs/acme/installation").json()["id"] == sandbox.installation_id("acme")
