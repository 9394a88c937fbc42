"""The worker: RQ, with everything imported before it forks, and with eyes for colleagues that died."""

from __future__ import annotations

from rq import Queue, Worker
from rq.job import Job
from rq.serializers import JSONSerializer

import jobs.confirm
import jobs.inbox
import jobs.installations
import jobs.notify
import jobs.redeliver
import jobs.remediate
import jobs.report
import jobs.sweep  # noqa: F401 - imported before the fork, not in every job
from ghapp.errors import ConfigurationError
from ghapp.log import logger
from ghapp.settings import Settings
from ghapp.store.connect import connect_sync
from ghapp.work import QUEUES
from jobs.house import furnish

log = logger(__name__)

MAINTENANCE_SECONDS = 5
WORKER_TTL_SECONDS = 20
MONITORING_SECONDS = 5
HEARTBEAT_SECONDS = 12
LONGEST_REDIS_WAIT_SECONDS = 5.0


class AttentiveWorker(Worker):
    """RQ's worker; a job whose worker and horse both died is taken over in seconds, not in a quarter of an hour."""

    max_connection_wait_time = LONGEST_REDIS_WAIT_SECONDS

    def get_heartbeat_ttl(self, job: Job) -> int:  # noqa: ARG002
        """How long a silent job is believed to run."""
        return HEARTBEAT_SECONDS


def run(settings: Settings) -> None:
    """Work until SIGTERM; the job in hand is finished first."""
    if settings.redis_url is None:
        raise ConfigurationError("GHAPP_REDIS_URL: not set; every role but `up` needs it")
    furnish(settings)
    connection = connect_sync(settings.redis_url)
    queues = [Queue(name, connection=connection, serializer=JSONSerializer) for name in QUEUES]
    worker = AttentiveWorker(
        queues,
        connection=connection,
        serializer=JSONSerializer,
        worker_ttl=WORKER_TTL_SECONDS,
        maintenance_interval=MAINTENANCE_SECONDS,
        job_monitoring_interval=MONITORING_SECONDS,
        exception_handlers=[_told],
    )
    worker.work(with_scheduler=False, logging_level="WARNING")


def _told(job: Job, kind: type[BaseException], error: BaseException, _trace: object) -> bool:
    log.warning("job failed", job=job.id, work=job.func_name, error=kind.__name__, why=str(error))
    return True
