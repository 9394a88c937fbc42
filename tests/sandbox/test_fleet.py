from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from ghapp.sandbox.config import Pace, PoolConfig, pools_of
from ghapp.sandbox.fleet.jobs import RUNS_KEPT, SandboxRepository
from ghapp.sandbox.fleet.life import JOBS_KEPT, FleetLife, JobBoard
from ghapp.sandbox.fleet.runners import JobMoved, RunnerEnded, RunnerOnline

NOON = 1_800_000_000.0
PACE = Pace(job=(60, 60), boot=(5, 5), settle=(2, 2))
SMALL = (PoolConfig(name="small", size=2),)
GPU = (PoolConfig(name="gpu", size=1, ephemeral=False),)


def fleet_of(pools=SMALL, *, quiet=True, pace=PACE, seed=1):
    repository = SandboxRepository(1, "acme", "api", head_sha="a" * 40)
    return FleetLife(pools, [repository], pace=pace, rng=Random(seed), first_id=1, now=NOON, quiet=quiet), repository


def submit(fleet, repository, now=NOON):
    pool = next(iter(fleet.pools.values()))
    return fleet.submit(repository, pool.all_labels, now)


def kinds(happenings):
    return [h.action if isinstance(h, JobMoved) else type(h).__name__ for h in happenings]


def test_a_job_and_its_run_are_kept_while_it_waits_however_many_follow():
    fleet, repository = fleet_of(GPU)
    waiting = fleet.submit(repository, ("nobody",), NOON)
    for number in range(RUNS_KEPT + 1):
        repository.record_run(number, NOON)
    board = JobBoard()
    board.remember(waiting)
    for number in range(JOBS_KEPT + 1):
        board.remember(replace(waiting, id=10**12 + number, status="completed"))
    assert (waiting.id in board.jobs, len(board.jobs)) == (True, JOBS_KEPT)
    assert waiting.run_id in {run.id for run in repository.runs}
    assert len(repository.runs) == RUNS_KEPT
    waiting.status = "completed"
    repository.record_run(RUNS_KEPT + 1, NOON)
    assert waiting.run_id not in {run.id for run in repository.runs}


def test_the_default_pools_share_out_any_number_of_runners():
    assert [pool.size for pool in pools_of(300)] == [200, 70, 30]
    for runners in (0, 1, 7, 10_000):
        assert sum(pool.size for pool in pools_of(runners)) == runners


def test_an_ephemeral_runner_leaves_with_its_job_and_another_boots_offline_then_online():
    fleet, repository = fleet_of()
    job = submit(fleet, repository)
    worker = fleet.roster.registered[job.runner_id]
    assert kinds(fleet.step(NOON + 59.9)) == ["queued", "in_progress"]
    assert worker.busy
    assert kinds(fleet.step(NOON + 60)) == ["completed", "RunnerEnded"]
    assert worker.id not in fleet.roster.registered
    assert fleet.step(NOON + 65) == []
    (fresh,) = [r for r in fleet.roster.registered.values() if r.id > 2]
    assert (fresh.pool, fresh.online) == ("small", False)
    assert fleet.step(NOON + 67) == [RunnerOnline(fresh, NOON + 67)]
    assert fresh.online


def test_a_persistent_runner_stays_and_takes_the_next_job():
    fleet, repository = fleet_of(GPU)
    first, second = submit(fleet, repository), submit(fleet, repository)
    assert fleet.queue == [second]
    fleet.step(NOON + 60)
    assert first.status == "completed"
    assert (second.status, second.started_at, second.runner_id) == ("in_progress", NOON + 60, first.runner_id)


def test_a_job_that_no_runner_has_the_labels_for_waits():
    fleet, repository = fleet_of()
    job = fleet.submit(repository, ("self-hosted", "windows"), NOON)
    assert kinds(fleet.step(NOON + 600)) == ["queued"]
    assert fleet.queue == [job]


def test_an_event_shows_the_job_as_it_was_then():
    fleet, repository = fleet_of()
    submit(fleet, repository)
    seen = [h.job.status for h in fleet.step(NOON + 60) if isinstance(h, JobMoved)]
    assert seen == ["queued", "in_progress", "completed"]


def test_a_lost_runner_takes_no_work_and_comes_back_under_its_id():
    fleet, repository = fleet_of(GPU)
    (runner,) = fleet.roster.registered.values()
    fleet.lose([runner])
    job = submit(fleet, repository)
    assert (fleet.roster.registered, fleet.roster.zombies) == ({}, {runner.id: runner})
    assert job.status == "queued"
    assert runner.alive
    fleet.restore([runner], NOON + 1)
    assert job.runner_id == runner.id


def test_a_runner_that_loses_its_registration_at_work_ends_with_its_job():
    fleet, repository = fleet_of()
    job = submit(fleet, repository)
    fleet.lose([fleet.roster.registered[job.runner_id]])
    assert RunnerEnded in [type(h) for h in fleet.step(NOON + 60)]
    assert fleet.roster.zombies == {}


def test_lost_runners_are_chosen_among_the_idle_first():
    fleet, repository = fleet_of()
    job = submit(fleet, repository)
    (chosen,) = fleet.roster.choose(1)
    assert chosen.id != job.runner_id


@pytest.mark.parametrize("step", [0.5, 7.0, 300.0])
def test_the_same_seed_lives_the_same_life_in_steps_of_any_size(step):
    def life(step):
        fleet, _ = fleet_of(pools_of(30), quiet=False, pace=Pace())
        now, moves = NOON, []
        while now < NOON + 300:
            now = min(now + step, NOON + 300)
            moves += [(h.action, h.job.id, h.job.runner_name, h.at) for h in fleet.step(now) if isinstance(h, JobMoved)]
        return moves

    assert len(life(step)) > 20
    assert life(step) == life(1.0)


def test_speed_makes_everything_faster_alike():
    slow, _ = fleet_of(pools_of(30), quiet=False, pace=Pace())
    fast, _ = fleet_of(pools_of(30), quiet=False, pace=Pace(speed=10))
    assert len(fast.step(NOON + 30)) == pytest.approx(len(slow.step(NOON + 300)), rel=0.01)


def test_a_quiet_fleet_does_nothing_until_it_is_woken_and_again_when_quieted():
    fleet, _ = fleet_of(pools_of(30))
    assert fleet.step(NOON + 3600) == []
    fleet.set_quiet(False, NOON + 3600)
    assert "queued" in kinds(fleet.step(NOON + 3700))
    fleet.set_quiet(True, NOON + 3700)
    assert "queued" not in kinds(fleet.step(NOON + 4000))


def test_a_crowded_pool_makes_jobs_wait():
    fleet, _ = fleet_of((PoolConfig(name="gpu", size=5, ephemeral=False, load=1.2),), quiet=False, pace=Pace())
    fleet.step(NOON + 1800)
    assert fleet.queue
    assert all(runner.busy for runner in fleet.roster.registered.values())


def test_names_consist_of_the_pool_and_five_characters():
    fleet, _ = fleet_of(pools_of(300))
    names = [runner.name for runner in fleet.roster.registered.values()]
    assert len(set(names)) == 300
    assert all(len(name.rpartition("-")[2]) == 5 for name in names)
    assert {name.rpartition("-")[0] for name in names} == {"linux-4vcpu", "linux-8vcpu", "gpu"}
