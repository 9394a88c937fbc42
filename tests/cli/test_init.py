"""`ghapp init` on stored runners."""

from __future__ import annotations

import pytest

from ghapp.pods.store import Pods
from ghapp.settings import Settings
from tests.cli.conftest import WATCHED
from tests.cli.test_cli import one_line
from tests.rules.builders import lost, online
from tests.rules.pods.builders import pod, runner_object
from tests.support.snapshots import record_snapshot

pytestmark = pytest.mark.parametrize("known", ["Redis"], indirect=True)


async def test_the_output_is_a_configuration_in_dry_run_with_the_pool_of_the_runners(known, tmp_path):
    answer = await known.ask("init", "--org", "ACME")
    assert (answer.returncode, answer.stderr) == (0, "")
    (tmp_path / "suggested.toml").write_text(answer.stdout)
    settings = Settings.read({"GHAPP_CONFIG": str(tmp_path / "suggested.toml"), "GHAPP_STATE_DIR": str(tmp_path)})
    assert [(each.org, each.name, each.labels) for each in settings.pools] == [
        ("acme", "linux-4vcpu", ("linux-4vcpu",))
    ]
    assert settings.of("acme").remediation.mode == "dry-run"


async def test_runners_that_are_retired_or_healed_suggest_no_pool(known):
    past = {"first_seen": known.now - 900, "observed_at": known.now - 600, "absent_since": known.now - 300}
    for departed in (
        online(2, ephemeral=True, job_id=70, job_started_at=known.now - 500, job_ended_at=known.now - 400),
        online(3, retired_at=known.now - 300),
        lost(4, confirmed_at=known.now - 200, removed_at=known.now - 150, replaced_at=known.now - 100, successor=1),
    ):
        await known.add_runner(departed._replace(custom_labels=("departed",), listed=False, **past))
    shown = (await known.ask("init")).stdout
    assert "# 1 runner\n" in shown
    assert "departed" not in shown


async def test_runners_whose_pods_are_watched_are_replaced_by_their_pods(known):
    known.write_config(WATCHED + 'replacer = "none"\n')
    assert 'replacer = "none"' in (await known.ask("init")).stdout
    await record_snapshot(Pods(known.redis), "runners", [pod(name="linux-1")], [], known.now)
    assert 'replacer = "pods"  ' in (await known.ask("init")).stdout
    await record_snapshot(
        Pods(known.redis), "runners", [pod(name="linux-1")], [runner_object(name="linux-1")], known.now
    )
    shown = (await known.ask("init")).stdout
    assert 'replacer = "arc"  ' in shown
    assert 'namespace = "runners"\n' in shown
    await record_snapshot(Pods(known.redis), "runners", [pod(name="linux-1")], [], known.now - 3600)
    assert 'replacer = "none"' in (await known.ask("init")).stdout, "it is not seen now"


async def test_an_unknown_org_is_wrong_usage(known):
    assert "unknown: the App is not installed there" in one_line(await known.ask("init", "--org", "unknown"), 2)
