"""Of 500 pods 3 % a minute are forgotten, in each way there is; all leaks of those go in time, and none else."""

from __future__ import annotations

from random import Random

from tests.stories.conftest import POOL
from tests.stories.leaks.leak_story import leaking

PODS = 500
LEAKING_MINUTES = 12
LEAKS_A_MINUTE = 15
HANGING_MINUTES = (1, 2)
"""When those whose job ends stay connected: late enough that there are jobs, and early enough to see their end."""

KEPT = {
    "never registered": "Unnamed",
    "hung, offline": "Registered",
    "job over, hangs online": "SessionAfterJob",
}
"""Ways in which a pod is forgotten that look the same as a live pod, and the guard that keeps it."""

CLAIM_SECONDS = 480.0

MOST_SECONDS = 360
"""From the moment when a pod became a leak until it is deleted."""


async def test_of_500_pods_3_percent_leak_a_minute_and_all_of_those_go_within_6_minutes_and_none_else(
    story, tmp_path, monkeypatch
):
    async with leaking(story, tmp_path, runners=PODS, fuse="") as at:
        at.listen_without_http(monkeypatch)
        fleet = Fleet(at)
        await fleet.care(age_seconds=3600)
        for minute in range(LEAKING_MINUTES + MOST_SECONDS // 60):
            await at.tick()
            fleet.look()
            if minute < LEAKING_MINUTES:
                await fleet.leak(LEAKS_A_MINUTE, is_hanging=minute in HANGING_MINUTES)
            await fleet.live_a_minute(jobs=2 * LEAKS_A_MINUTE)
        last = await at.tick()
        fleet.look()
        kept = {name for way in KEPT for name in fleet.forgotten[way]}
        assert at.accounts() == at.pods() == fleet.cared_for | kept
        assert len(at.deletions()) == len(set(at.deletions()))
        assert {guard: last.kept[guard] for guard in KEPT.values()} == {
            guard: len(fleet.forgotten[way]) for way, guard in KEPT.items()
        }
        assert last.held == 0
    assert {way: len(names) for way, names in fleet.forgotten.items()} == {
        "never registered": 36,
        "job over, registration removed": 36,
        "job over, hangs online": 8,
        "hung, offline": 50,
        "container ended, offline": 50,
    }
    assert fleet.reaped_at.keys() == fleet.leaks_from.keys()
    late = {name: fleet.reaped_at[name] - since for name, since in fleet.leaks_from.items()}
    assert 0 <= min(late.values()) <= max(late.values()) <= MOST_SECONDS
    assert fleet.never_claimed & fleet.cared_for


class Fleet:
    """What controllers do in the cluster, and which pods they forget. A pod has its runner's name.

    Idle runners' pods are claimed by their controller. Once a job runs, half of them are still claimed, and of the
    others only deliveries show that they are at work. One in five is never claimed at all: GitHub shows it online.

    Attributes:
        forgotten: names, by the way in which they were forgotten.
        leaks_from: since when each is a leak: since it was forgotten, and nothing protects it from then on.
        reaped_at: by the tick of that moment.
    """

    def __init__(self, at):
        self.at, self.chance = at, Random(1)
        self.cared_for, self.trusts_deliveries, self.never_claimed = set(), set(), set()
        self.forgotten, self.leaks_from, self.reaped_at = {}, {}, {}
        self.claimed_until = {}

    async def live_a_minute(self, jobs):
        app = self.at.app
        app.sandbox.control.queue("acme", labels=[POOL], repository="api", count=jobs)
        await app.pass_(60)
        await self.at.receive_all()
        await self.care()

    async def care(self, age_seconds=0):
        """New runners' pods are made, ended runners' pods go, and the others are claimed as they need it."""
        runners = self.at.runners
        forgotten = set().union(*self.forgotten.values())
        new, ended = runners.keys() - self.cared_for - forgotten, self.cared_for - runners.keys()
        with self.at.at_once():
            for name in new:
                self.at.make_pod(name, age_seconds=age_seconds)
            for name in ended:
                self.at.drop_pod(name)
        for name in sorted(new):
            (kind,) = self.chance.choices([self.trusts_deliveries, self.never_claimed, set()], (4, 2, 4))
            kind.add(name)
        for name in ended:
            await self.release(name)
        self.cared_for = self.cared_for - ended | new
        for name in self.cared_for - self.never_claimed:
            if runners[name].job is not None and name in self.trusts_deliveries:
                await self.release(name)
            else:
                await self.claim(name)

    async def claim(self, name):
        """Renewed a minute before it would run out."""
        if self.claimed_until.get(name, 0.0) <= self.at.app.clock() + 60:
            await self.at.claim(name, seconds=CLAIM_SECONDS)
            self.claimed_until[name] = self.at.app.clock() + CLAIM_SECONDS

    async def release(self, name):
        if self.claimed_until.pop(name, None):
            await self.at.release(name)

    async def leak(self, count, *, is_hanging):
        """Forget that many, in all ways: no controller claims them any more."""
        runners, control = self.at.runners, self.at.app.sandbox.control
        unregistered = [f"{POOL}-never-{len(self.forgotten.get('never registered', ())) + each}" for each in range(3)]
        for name in unregistered:
            self.at.make_pod(name, age_seconds=900)
        await self.forget("never registered", unregistered)
        at_work = sorted(name for name in self.cared_for if runners[name].job is not None)
        over = self.chance.sample(at_work, min(len(at_work), 4))
        if is_hanging:
            for name in over:
                self.at.hang_after_its_job(name)
            await self.forget("job over, hangs online", over)
        else:
            for name in over:
                control.finish("acme", job_id=runners[name].job.id)
            await self.forget("job over, registration removed", over)
        idle = sorted(name for name in self.cared_for if runners[name].job is None)
        rest = self.chance.sample(idle, count - len(unregistered) - len(over))
        self.at.go_offline(*rest[::2], alive=False)
        await self.forget("hung, offline", rest[::2])
        with self.at.at_once():
            for name in rest[1::2]:
                self.at.end_container(name, noticed=True)
        await self.forget("container ended, offline", rest[1::2])

    async def forget(self, way, names):
        self.forgotten.setdefault(way, set()).update(names)
        for name in names:
            if way not in KEPT:
                self.leaks_from[name] = self.at.app.clock()
            self.cared_for.discard(name)
            await self.release(name)

    def look(self):
        """Every pod that was deleted since the last look must have been a leak by then."""
        now = self.at.app.clock()
        for name in set(self.at.deletions()) - self.reaped_at.keys():
            assert now >= self.leaks_from.get(name, now + 1), f"{name} was at work, or waited for it"
            self.reaped_at[name] = now
