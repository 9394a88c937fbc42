"""`ghapp init` on stored runners."""

from __future__ import annotations

import pytest

from ghapp.settings import Settings
from tests.cli.test_cli import one_line
from tests.rules.builders import lost, online

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


async def test_an_unknown_org_is_wrong_usage(known):
    assert "unknown: the App is not installed there" in one_line(await known.ask("init", "--org", "unknown"), 2)
