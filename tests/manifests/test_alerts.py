"""Each alert fires where it should, alone, and not at its bound; its expression is evaluated as Prometheus would."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from tests.manifests.alerts import ALERTS, firing
from tests.manifests.promql import Scrapes, evaluate

NOW = 1_790_000_000.0
CALM = f"""
ghapp_inbox_lag 0.0
ghapp_dead_letters 0.0
ghapp_budget_left_calls{{org="acme"}} 2400.0
ghapp_last_sweep_timestamp_seconds{{org="acme"}} {NOW - 30!r}
ghapp_runners{{org="acme",pool="linux",state="healthy"}} 40.0
ghapp_runners{{org="acme",pool="linux",state="offline"}} 0.0
ghapp_fuse{{org="acme",pool="linux",position="closed"}} 1.0
ghapp_paused{{org="acme",pool="linux"}} 0.0
ghapp_watch_view_age_seconds{{namespace="runners"}} 1.0
ghapp_phantoms{{org="acme",kind="orphaned-pod"}} 0.0
ghapp_redeliveries_total 7.0
ghapp_jobs_failed_total{{work="sweep"}} 3.0
ghapp_orphans_reaped_total{{org="acme",outcome="failed"}} 2.0
ghapp_deaths_total{{org="acme",cause="host-oom",pool="linux"}} 5.0
ghapp_deaths_total{{org="acme",cause="host-oom",pool="gpu"}} 0.0
ghapp_jobs{{org="acme",pool="linux",state="queued"}} 3.0
ghapp_jobs_oldest_queued_seconds{{org="acme",pool="linux"}} 40.0
"""


class Case(NamedTuple):
    """What makes an alert fire, and what is just not enough: series in place of those of a calm fleet."""

    fires: dict[str, float]
    does_not: dict[str, float]


ACME, LINUX = '{org="acme"}', '{org="acme",pool="linux"}'
LAST = "ghapp_last_sweep_timestamp_seconds" + ACME
SINCE = 'ghapp_sweeps_failing_since_timestamp_seconds{org="acme",reason="Unauthorized"}'
OFFLINE, HEALTHY = (f'ghapp_runners{{org="acme",pool="linux",state="{state}"}}' for state in ("offline", "healthy"))
STOPPED, PROVING = (f'ghapp_fuse{{org="acme",pool="linux",position="{each}"}}' for each in ("stopped", "proving"))
UNSERVED = 'ghapp_jobs_unserved{org="acme",pool="linux",reason="RunnersOffline"}'
OLDEST = "ghapp_jobs_oldest_queued_seconds" + LINUX
TABLE = {
    "GhappSweepsOverdue": Case({LAST: NOW - 900.5}, {LAST: NOW - 900}),
    "GhappSweepsFailing": Case({SINCE: NOW - 600.5, LAST: NOW - 9999}, {SINCE: NOW - 600, LAST: NOW - 9999}),
    "GhappRunnersTooOld": Case(
        {'ghapp_runners_by_version{org="acme",pool="linux",version="2.335.1",state="ending"}': 1},
        {'ghapp_runners_by_version{org="acme",pool="linux",version="2.337.0",state="current"}': 40},
    ),
    "GhappFuseStopped": Case({STOPPED: 1}, {STOPPED: 0}),
    "GhappFuseProving": Case({PROVING: 1}, {PROVING: 0}),
    "GhappReplacementUnanswered": Case(
        {"ghapp_replacements_unanswered" + LINUX: 1}, {"ghapp_replacements_unanswered" + LINUX: 0}
    ),
    "GhappPausedLong": Case({"ghapp_paused" + LINUX: 1}, {"ghapp_paused" + LINUX: 0}),
    "GhappRunnersOffline": Case({OFFLINE: 11, HEALTHY: 40}, {OFFLINE: 10, HEALTHY: 40}),
    "GhappInboxBehind": Case({"ghapp_inbox_lag": 5001}, {"ghapp_inbox_lag": 5000}),
    "GhappDeadLetters": Case({"ghapp_dead_letters": 1}, {"ghapp_dead_letters": 0}),
    "GhappDeliveriesMissed": Case({"ghapp_redeliveries_total": 58}, {"ghapp_redeliveries_total": 57}),
    "GhappBudgetSpent": Case({"ghapp_budget_left_calls" + ACME: 0}, {"ghapp_budget_left_calls" + ACME: 1}),
    "GhappJobsFailing": Case(
        {'ghapp_jobs_failed_total{work="deliver-event"}': 6}, {'ghapp_jobs_failed_total{work="sweep"}': 8}
    ),
    "GhappWatchBlind": Case(
        {'ghapp_watch_view_age_seconds{namespace="runners"}': 300.5},
        {'ghapp_watch_view_age_seconds{namespace="runners"}': 300},
    ),
    "GhappReaperHeldUp": Case(
        {
            'ghapp_orphans_reaped_total{org="acme",outcome="failed"}': 8,
            'ghapp_orphans_reaped_total{org="acme",outcome="skipped"}': 5,
        },
        {
            'ghapp_orphans_reaped_total{org="acme",outcome="failed"}': 12,
            'ghapp_orphans_reaped_total{org="acme",outcome="reaped"}': 99,
        },
    ),
    "GhappPhantoms": Case(
        {'ghapp_phantoms{org="acme",kind="orphaned-pod"}': 1}, {'ghapp_phantoms{org="acme",kind="orphaned-pod"}': 0}
    ),
    "GhappJobsUnserved": Case({UNSERVED: 1, OLDEST: 9999}, {UNSERVED: 0}),
    "GhappQueueSlow": Case({OLDEST: 3600.5}, {OLDEST: 3600}),
    "GhappRunnersDying": Case(
        {
            'ghapp_deaths_total{org="acme",cause="host-oom",pool="linux"}': 11,
            'ghapp_deaths_total{org="acme",cause="host-oom",pool="gpu"}': 5,
        },
        {
            'ghapp_deaths_total{org="acme",cause="host-oom",pool="linux"}': 11,
            'ghapp_deaths_total{org="acme",cause="host-oom",pool="gpu"}': 4,
            'ghapp_deaths_total{org="acme",cause="terminated",pool="gpu"}': 99,
        },
    ),
}
"""For each alert but GhappAway, which fires where there is nothing at all."""


def scraped(changes):
    series = dict(line.rsplit(" ", 1) for line in CALM.strip().splitlines())
    series |= {name: repr(float(value)) for name, value in changes.items()}
    return Scrapes(CALM, "".join(f"{name} {value}\n" for name, value in series.items()), NOW)


def test_every_alert_has_a_case():
    assert TABLE.keys() | {"GhappAway"} == ALERTS.keys()


def test_a_calm_fleet_raises_no_alert():
    assert firing(scraped({})) == {}


def test_where_no_web_role_answers_that_is_the_alert():
    assert firing(Scrapes("", "", NOW)).keys() == {"GhappAway"}


@pytest.mark.parametrize("alert", TABLE)
def test_an_alert_fires_alone_beyond_its_bound_and_not_at_it(alert):
    assert firing(scraped(TABLE[alert].fires)).keys() == {alert}
    assert alert not in firing(scraped(TABLE[alert].does_not))


def test_a_share_needs_three_runners_and_says_which_pool():
    assert "GhappRunnersOffline" not in firing(scraped({OFFLINE: 2, HEALTHY: 2}))
    assert firing(scraped({OFFLINE: 3, HEALTHY: 3}))["GhappRunnersOffline"] == [{"org": "acme", "pool": "linux"}]


@pytest.mark.parametrize("expression", ["rate(ghapp_inbox_lag[5m]) > 1", "ghapp_inbox_lag or ghapp_dead_letters", "1"])
def test_what_the_evaluator_does_not_know_is_refused(expression):
    with pytest.raises(SyntaxError):
        evaluate(expression, scraped({}))
