"""`ghapp init` on stored runners."""

from __future__ import annotations

import pytest

from ghapp.settings import Settings
from tests.cli.test_cli import one_line

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


async def test_an_unknown_org_is_wrong_usage(known):
    assert "unknown: the App is not installed there" in one_line(await known.ask("init", "--org", "unknown"), 2)
