"""The metrics of jobs, and of runners that wait for them."""

from ghapp.metric import Gauge, Histogram

JOBS = Gauge(
    "ghapp_jobs",
    "Queued and running jobs of self-hosted runners, by pool; pool other: no known pool has the labels. "
    "Running jobs of a shard have the label shard, and are in no other series.",
    ("org", "pool", "state"),
    ("shard",),
)
OLDEST_QUEUED = Gauge(
    "ghapp_jobs_oldest_queued_seconds", "Age of the oldest queued job, 0 without one.", ("org", "pool")
)
UNSERVED = Gauge(
    "ghapp_jobs_unserved", "Queued jobs that no online runner can take, by reason.", ("org", "pool", "reason")
)
RUNNERS_IDLE = Gauge(
    "ghapp_runners_idle",
    "Online runners without a job. Those of a shard have the label shard, and are in no other series.",
    ("org", "pool"),
    ("shard",),
)
QUEUE_SECONDS = Histogram(
    "ghapp_job_queue_seconds",
    "Wait of jobs that a self-hosted runner took, by configured pool; all others are pool other.",
    ("org", "pool"),
    ("shard",),
    buckets=(5.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0, 14_400.0),
)
RUN_SECONDS = Histogram(
    "ghapp_job_run_seconds",
    "Duration of jobs on self-hosted runners, by configured pool; all others are pool other.",
    ("org", "pool"),
    ("shard",),
    buckets=(30.0, 60.0, 300.0, 600.0, 1800.0, 3600.0, 7200.0, 21_600.0),
)
