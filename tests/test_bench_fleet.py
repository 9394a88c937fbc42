"""The fleets of `make bench SCALE=1` run at a small size: a change of what they use breaks them here first."""

from __future__ import annotations

import pytest

from tests.bench.figure import Figure
from tests.bench.fleet import many, pods, week


def test_changes_of_pods_are_measured_with_a_real_watch(tmp_path, monkeypatch):
    monkeypatch.setattr(pods, "PODS", 30)
    monkeypatch.setattr(pods, "ENDED", 3)
    monkeypatch.setattr(pods, "LABELED", 2)
    monkeypatch.setattr(pods, "BURSTS", 2)
    monkeypatch.setattr(pods, "SETTLE_SECONDS", 0.0)
    monkeypatch.setattr(pods, "QUIET_SECONDS", 0.1)
    seconds, recorded, memory, cpu = pods.measure(tmp_path)
    assert seconds.unit == " s"
    assert seconds.spread is not None
    assert recorded.value >= seconds.value
    assert memory.value > 1.0
    assert not cpu.required


def test_a_week_of_ephemeral_runners_is_measured_with_real_jobs(tmp_path, monkeypatch):
    monkeypatch.setattr(week, "RUNNERS", 30)
    monkeypatch.setattr(week, "DAYS", 2)
    monkeypatch.setattr(week, "SETTLED_DAYS", 1)
    monkeypatch.setattr(week, "LOST", 1)
    monkeypatch.setattr(week, "STEP_SECONDS", 7200)
    monkeypatch.setattr(week, "STEPS_A_SWEEP", 3)
    monkeypatch.setattr(week, "HISTORY_SECONDS", 3600)
    size, growth = week.measure(tmp_path)
    # Listed at the end, left within the last day, lost within the last day.
    assert size.note.startswith(f"{29 + 30 + 4} known")
    assert growth.note.startswith("60 runners with one job each, 7 lost and replaced")


def test_many_installations_are_measured_with_real_roles(tmp_path, monkeypatch):
    for name, value in {
        "INSTALLATIONS": 8,
        "RUNNERS": 5,
        "OFFLINE": 1,
        "WARM_UP_SWEEPS": 1,
        "MEASURED_SECONDS": 2.0,
        "LOAD_ROUNDS": 2,
        "LOAD_SECONDS": 0.05,
        "POLICY": "[sweep]\ninterval_seconds = 1\n",
    }.items():
        monkeypatch.setattr(many, name, value)
    gap, cores, cpu, *answers, first, spare = many.measure(tmp_path)
    assert gap.note.endswith("by one worker")
    assert 0 < cores.value < 2
    assert cpu.value > 0
    assert [each.name.split()[0] for each in answers] == [*many.ANSWERS]
    assert first.name == "the first answer of /metrics after that start"
    assert first.value > 0
    assert spare.name.startswith("the limit of the simulated GitHub")
    assert spare.value > 1


@pytest.mark.parametrize(
    ("bounds", "reached", "required"),
    [({}, True, ""), ({"most": 1.0}, True, "≤ 1"), ({"most": 0.9}, False, "≤ 0.9"), ({"least": 1.1}, False, "≥ 1.1")],
    ids=["without a bound", "at most", "above the most", "below the least"],
)
def test_a_figure_is_reached_within_its_bounds(bounds, reached, required):
    figure = Figure("name", "measured", 1.0, **bounds)
    assert (figure.reached, figure.required) == (reached, required)
