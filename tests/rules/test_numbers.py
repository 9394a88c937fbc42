"""The numbers of the judgement.

The tables beside this file compare with the constants, so that a constant that was changed by mistake passes them all.
"""

from __future__ import annotations

from importlib import import_module

import pytest

HOUR, DAY = 3600.0, 86_400.0

NUMBERS = {
    "runners.absence": {
        "AHEAD_SECONDS": 2.0,
        "LOOKUP_SECONDS": (60.0, 960.0),
        "MOST_AHEAD_SECONDS": HOUR,
        "MOST_ASKED": 200,
        "MOST_JOBS": 20,
        "MOST_OWN_IMAGES": 100,
        "MOST_SAMPLED": 10,
        "RUNNERS_A_GET": 1000,
        "SLIPPED_SHARE": 0.1,
    },
    "runners.deletion_progress": {
        "LEAST_PAUSE_SECONDS": 30.0,
        "MOST_PAUSE_SECONDS": 600.0,
    },
    "runners.delivery_lag": {
        "HOLD_SECONDS": HOUR,
        "LATEST_SECONDS": 3 * DAY,
        "LATE_DELIVERY_SECONDS": 10.0,
        "MANY_OVERDUE": 3,
        "MARGIN_SECONDS": 5.0,
        "MOST_LATE": 8,
        "OVERDUE_LASTS_SECONDS": 6 * HOUR,
        "UNNAMED_SECONDS": 15.0,
    },
    "runners.evidence": {
        "BLIND_KEPT_SECONDS": 7 * DAY,
        "LIST_LASTS_SECONDS": 300.0,
        "MOST_BLIND_SPANS": 200,
        "SECOND": 1.0,
        "STALE_LIST_SECONDS": 60.0,
    },
    "runners.failed_calls": {
        "LONGEST_REASON": 200,
        "RETRY_SECONDS": (30.0, 960.0),
    },
    "runners.next_attempt": {
        "OVERDUE_SECONDS": 15.0,
    },
    "runners.observations": {
        "LIST_LAG_SECONDS": 300.0,
        "OMITTED_SECONDS": (60.0, 180.0),
        "OVERTAKING_SECONDS": 180.0,
        "REPORT_SETTLES_SECONDS": 120.0,
    },
    "runners.outdated": {
        "WITHOUT_JOB_SECONDS": 60.0,
    },
    "runners.transitions": {
        "ANSWERABLE_SECONDS": 1 * DAY,
        "WAITING_SECONDS": 7 * DAY,
    },
    "runners.verdict": {
        "DOUBTFUL_JOB_SECONDS": HOUR,
        "HANG_SECONDS": 300.0,
        "JOB_LEASE_SECONDS": 600.0,
        "LONGEST_JOB_SECONDS": 5 * DAY,
    },
    "remediation.churn": {
        "CHURN_SECONDS": HOUR,
        "DEPARTURES_SECONDS": 2 * HOUR,
        "TIMES_AS_LONG": (1, 2, 4, 8),
    },
    "remediation.decision": {
        "DELIVERIES_FLOW_SECONDS": 1 * DAY,
    },
    "remediation.fuse": {
        "FLOAT_NOISE": 1e-09,
        "FORGOTTEN_SECONDS": 7 * DAY,
        "LATE_SUCCESSORS_SECONDS": 4200.0,
        "UNPROVEN_SECONDS": HOUR,
    },
    "remediation.fuse_moves": {
        "MOST_RUNNERS": 500,
    },
    "remediation.job_proof": {
        "AROUND_SECONDS": 300.0,
        "DOUBT": 0.001,
        "FEWEST_OVERTAKEN": 3,
        "FEWEST_PEERS": 10,
        "LEAST_SHARE": 0.9,
        "MOST_SHARE": 0.98,
        "OVERTAKEN_SECONDS": 30.0,
        "PEERS_SECONDS": HOUR,
        "SHARES": (0.125, 0.25, 0.5, 1, 2, 4),
        "STEADY_SHARE": 0.8,
        "TOGETHER_SECONDS": 60.0,
        "YOUNG_SHARE": 0.75,
    },
    "remediation.plan": {
        "MOST_OPEN": 1000,
    },
    "remediation.steps": {
        "LOOK_LASTS_SECONDS": 10.0,
        "TERMINATION_SECONDS": HOUR,
    },
    "remediation.healing": {
        "BOOTS_SECONDS": 1800.0,
        "FEWEST_BOOTS": 10,
        "HEALED_WITHIN_SECONDS": HOUR,
        "SUCCESSOR_PATIENCE_SECONDS": 3900.0,
    },
    "leaks.github_queries": {
        "FIRST_ASKED_SECONDS": 300.0,
        "LONG_SECONDS": 4800.0,
    },
    "leaks.guards": {
        "ENDING_SECONDS": 30.0,
        "MOST_GAP_SECONDS": 150.0,
        "TERMINAL_SECONDS": 900.0,
    },
    "leaks.leak_fuse": {
        "PROVEN_SHARE": 0.4,
    },
    "leaks.reaper_status": {
        "DAY_SECONDS": 1 * DAY,
        "MOST_EXAMPLES": 5,
        "MOST_LEAKING": 50,
        "OVERDUE_SECONDS": 180.0,
    },
}


@pytest.mark.parametrize("module", NUMBERS)
def test_a_number_is_what_the_rules_promise(module):
    constants = vars(import_module(f"ghapp.{module}"))
    assert {name: constants[name] for name in NUMBERS[module]} == NUMBERS[module]
