"""Notifications by real Apprise over real HTTP: of fuses, of missing lists, and of jobs that no runner can take."""

import asyncio

import pytest

from ghapp.errors import StoreUnavailableError
from ghapp.gate.active_shard import Deploy, Role
from ghapp.installations.installation import Installation
from ghapp.loading.views import load_fleet
from ghapp.notifications.store import Notifications, PendingNotification
from ghapp.notifier import Notifier, digest
from ghapp.runners.absence import survey_after_failure
from ghapp.runners.evidence import Survey
from ghapp.runners.verdict import Reason
from ghapp.settings import Settings
from ghapp.store.connect import StorePipeline, connect_sync
from jobs import notifications
from jobs.notifications import BACKOFF_SECONDS, GIVEN_UP_SECONDS, notify
from jobs.runners.sweep import sweep_installation
from jobs.scheduler import Scheduler
from tests.sandbox.receivers import Receiver
from tests.stories.conftest import POOL


def address(receiver):
    return receiver.url.replace("http://", "json://")


@pytest.fixture
def receiver():
    with Receiver(status=200) as receiver:
        yield receiver


def titles(receiver, count=1):
    """Waits for `count` messages, and returns their titles: a receiver answers before it records a message."""
    return [each.payload["title"] for each in receiver.wait(count)]


async def test_a_mass_loss_is_one_message_at_its_start_and_one_at_its_end(story, receiver):
    async with story(runners=20) as app:
        notifier = Notifier([address(receiver)])
        await app.live_through_an_interval()
        await notify(app.context, notifier)
        app.sandbox.control.lose("acme", count=12)
        for _ in range(12):
            await app.live_through_an_interval()
            await notify(app.context, notifier)
        first, last = receiver.wait(2)
        assert first.payload["title"] == f"ghapp: acme: the fuse of pool {POOL} tripped"
        assert first.payload["type"] == "warning"
        assert last.payload["title"].startswith(f"ghapp: acme: the fuse of pool {POOL} closed after ")
        assert last.payload["message"].startswith("12 runners replaced since ")
        assert last.payload["type"] == "success"


async def test_three_hundred_installations_are_observed_together(story, receiver, monkeypatch):
    """One by one they kept a worker busy for most of the time between two observations."""
    async with story() as app:
        ids = range(1, 301)
        for each in ids:
            await app.context.installations.put(Installation(each, f"org-{each}", 1000 + each))
        failing = survey_after_failure(Survey(), Reason.GITHUB_UNAVAILABLE, app.clock() - 3600)
        await app.context.runners.save_survey(300, failing)
        pipelines, execute = [], StorePipeline.execute

        async def counted(self, *args, **kwargs):
            pipelines.append(self)
            return await execute(self, *args, **kwargs)

        monkeypatch.setattr(StorePipeline, "execute", counted)
        await notify(app.context, Notifier([address(receiver)]))
        assert len(pipelines) < len(ids)
        assert titles(receiver) == ["ghapp: org-300: no complete list of runners"]


async def test_no_observation_continues_after_another_has_failed_and_the_lock_was_released(story, monkeypatch):
    observed = []

    async def observe(_context, installation, _notifier, _now):
        if installation.id == 1:
            raise StoreUnavailableError("Redis is away")
        await asyncio.sleep(0.05)
        observed.append(installation.id)

    async with story() as app:
        for each in (1, 2):
            await app.context.installations.put(Installation(each, f"org-{each}", 1000 + each))
        monkeypatch.setattr(notifications, "_observe", observe)
        with pytest.raises(StoreUnavailableError):
            await notify(app.context, Notifier([]))
        assert set(observed) == {2, app.installation}


async def test_an_error_of_one_installation_costs_its_own_messages_alone(story, receiver, monkeypatch, capsys):
    observe = notifications._observe

    async def fails(context, installation, notifier, now):
        if installation.id == 1:
            raise ValueError("an odd record")
        await observe(context, installation, notifier, now)

    async with story() as app:
        await app.context.installations.put(Installation(1, "org-1", 1001))
        monkeypatch.setattr(notifications, "_observe", fails)
        notifier = Notifier([address(receiver)])
        await app.live_through_an_interval()
        await app.pass_(400)
        await notify(app.context, notifier)
        assert titles(receiver) == ["ghapp: acme: no complete list of runners"]


async def test_five_minutes_without_a_complete_list_are_one_message_and_their_end_another(story, receiver):
    async with story() as app:
        notifier = Notifier([address(receiver)])
        await app.live_through_an_interval()
        app.sandbox.control.fault(match=".*", status=500)
        for _ in range(8):
            await app.pass_(60)
            await sweep_installation(app.context, app.installation)
            await notify(app.context, notifier)
        assert titles(receiver) == ["ghapp: acme: no complete list of runners"]
        app.sandbox.control.no_faults()
        for _ in range(3):
            await app.live_through_an_interval()
            await notify(app.context, notifier)
        assert titles(receiver, 2)[1].startswith("ghapp: acme: runners are visible again after ")


async def test_a_job_that_no_runner_can_take_is_one_message_and_its_end_another(story, receiver):
    async with story() as app:
        notifier = Notifier([address(receiver)])
        await app.live_through_an_interval()
        app.listen()
        app.sandbox.control.queue("acme", labels=["gpu-large"])
        await app.receive()
        await notify(app.context, notifier)
        assert receiver.received == []
        for _ in range(4):
            await app.live_through_an_interval()
        await notify(app.context, notifier)
        assert titles(receiver) == ["ghapp: acme: 1 job waits for pool gpu-large that no runner can take"]
        assert "gpu-large" in receiver.received[0].payload["message"]
        job = (await app.context.demand.all(app.installation))[0]
        await app.context.demand.record(app.installation, [job._replace(status="over")])
        for _ in range(2):
            await app.live_through_an_interval()
            await notify(app.context, notifier)
        assert titles(receiver, 2)[1].startswith("ghapp: acme: no job waits for pool gpu-large any more")


async def test_topics_that_are_not_configured_are_not_notified(story, receiver):
    async with story(config='[notify]\nevents = ["gate"]') as app:
        await app.live_through_an_interval()
        await app.pass_(1000)
        await notify(app.context, Notifier([address(receiver)]))
        assert receiver.received == []


async def test_a_failed_deploy_without_a_check_run_is_notified_and_a_headline_until_its_gate_passes(story, receiver):
    async with story(
        config='[notify]\nevents = ["gate"]\n[[pools]]\norg = "acme"\nname = "rollout"\nlabels = ["x"]'
    ) as app:
        notifier, shards = Notifier([address(receiver)]), app.context.shards

        async def is_headline():
            installation = await app.context.installations.one(app.installation)
            fleet = await load_fleet(app.context, installation, app.settings, app.clock())
            return [place for place, gate in fleet.gates.items() if gate.failed_at is not None] == ["rollout/pink"]

        failed = Deploy("pink", Role.INACTIVE, app.clock(), app.clock(), "v42", failed_at=app.clock())
        for pool in ("rollout", "removed-pool"):
            await shards.record(app.installation, pool, lambda _: failed)
        await app.live_through_an_interval()
        await notify(app.context, notifier)
        assert titles(receiver) == ["ghapp: acme: the gate of shard pink of pool rollout failed"]
        assert "v42" in receiver.received[0].payload["message"]
        assert await is_headline()
        await shards.record(app.installation, "rollout", lambda _: failed._replace(passed_at=app.clock()))
        assert not await is_headline()
        for _ in range(3):
            await app.live_through_an_interval()
            await notify(app.context, notifier)
        assert titles(receiver, 2)[1].startswith("ghapp: acme: the gate of shard pink of pool rollout no longer fails")


class TestSending:
    """A notification that waits for a receiver."""

    async def waits(self, app, *addresses, **changes):
        now = app.clock()
        pending = [
            PendingNotification(digest(each), "title", "body", "info", now)._replace(**changes) for each in addresses
        ]
        await Notifications(app.context.redis).record(app.installation, {}, pending)

    async def pending(self, app):
        return [*(await Notifications(app.context.redis).pending()).values()]

    async def test_a_failing_receiver_is_retried_later_and_delays_no_other_receiver(self, story, receiver):
        async with story() as app:
            with Receiver(status=500) as bad:
                notifier = Notifier([address(bad), address(receiver)])
                await self.waits(app, address(bad), address(receiver))
                await notify(app.context, notifier)
                assert (len(bad.wait(1)), titles(receiver)) == (1, ["title"])
                (left,) = await self.pending(app)
                assert (left.tries, left.again_at) == (1, app.clock() + BACKOFF_SECONDS[0])
                await notify(app.context, notifier)
                assert len(bad.received) == 1
                bad.status = 200
                await app.pass_(BACKOFF_SECONDS[0])
                await notify(app.context, notifier)
                assert len(bad.wait(2)) == 2
                assert await self.pending(app) == []
                assert len(receiver.received) == 1

    @pytest.mark.parametrize(("age", "left"), [(GIVEN_UP_SECONDS, 1), (GIVEN_UP_SECONDS + 1, 0)])
    async def test_a_notification_is_dropped_after_a_day(self, story, age, left):
        async with story() as app:
            with Receiver(status=500) as bad:
                await self.waits(app, address(bad), created_at=app.clock() - age, tries=9)
                await notify(app.context, Notifier([address(bad)]))
                assert len(await self.pending(app)) == left

    async def test_a_receiver_that_was_removed_from_the_configuration_gets_nothing(self, story, receiver):
        async with story() as app:
            await self.waits(app, address(receiver))
            await notify(app.context, Notifier([]))
            assert (await self.pending(app), receiver.received) == ([], [])

    @pytest.mark.parametrize(("topic", "sent"), [("gate", ["title"]), ("fuse", []), ("", ["title"])])
    async def test_what_waits_of_a_topic_that_was_switched_off_is_not_sent(self, story, receiver, topic, sent):
        async with story(config='[notify]\nevents = ["gate"]') as app:
            await self.waits(app, address(receiver), org="acme", topic=topic)
            await notify(app.context, Notifier([address(receiver)]))
            assert (await self.pending(app), titles(receiver, len(sent))) == ([], sent)

    async def test_a_time_from_a_clock_that_jumped_delays_no_notification(self, story, receiver):
        async with story() as app:
            await self.waits(app, address(receiver), tries=1, again_at=app.clock() + 1e6)
            await notify(app.context, Notifier([address(receiver)]))
            assert titles(receiver) == ["title"]

    async def test_a_notification_recorded_before_a_crash_is_sent_by_the_next_run(self, story, receiver, monkeypatch):
        async with story(runners=20) as app:
            notifier = Notifier([address(receiver)])
            await app.live_through_an_interval()
            app.sandbox.control.lose("acme", count=12)
            for _ in range(3):
                await app.live_through_an_interval()
            with monkeypatch.context() as patch:
                patch.setattr("jobs.notifications._send", _killed)
                with pytest.raises(KilledError):
                    await notify(app.context, notifier)
            assert receiver.received == []
            await notify(app.context, notifier)
            await notify(app.context, notifier)
            assert titles(receiver) == [f"ghapp: acme: the fuse of pool {POOL} tripped"]


class KilledError(BaseException):
    pass


async def _killed(*_args):
    raise KilledError


@pytest.mark.parametrize(("urls", "asked"), [("json://127.0.0.1:9/", True), ("", False)])
async def test_the_scheduler_enqueues_notifications_if_a_receiver_is_configured(redis, redis_url, urls, asked):
    clock = Scheduler(Settings.read({"GHAPP_REDIS_URL": redis_url, "GHAPP_NOTIFY_URLS": urls}))
    await clock.tick()
    with connect_sync(redis_url) as queue_redis:
        assert queue_redis.exists("rq:job:notifications") == asked
    await clock.close()
