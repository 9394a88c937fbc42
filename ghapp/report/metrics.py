"""The metrics of the fleet: its runners and sweeps, what becomes of lost runners and leaked pods, its check runs."""

from ghapp.metric import Counter, Gauge, Histogram

RUNNERS = Gauge(
    "ghapp_runners",
    "Runners by org, pool and state: invalidated runners are lost, and no successor is online; "
    "retired ones left within the last 24 hours.",
    ("org", "pool", "state"),
)
RUNNERS_HEALED = Gauge(
    "ghapp_runners_healed", "Runners lost within the last 24 hours whose successor is online.", ("org", "pool")
)
REPLACEMENTS_UNANSWERED = Gauge(
    "ghapp_replacements_unanswered",
    "Lost runners whose replacement was accepted longer ago than [fuse] prove_seconds, and whose successor is not "
    "online.",
    ("org", "pool"),
)
FUSE = Gauge(
    "ghapp_fuse",
    "Position of each fuse that was ever not closed, by pool; pool * is all pools.",
    ("org", "pool", "position"),
)
PAUSED = Gauge("ghapp_paused", "Paused pools; pool * is all pools.", ("org", "pool"))
REMEDIATIONS = Counter("ghapp_remediations_total", "Remediations of lost runners by outcome.", ("org", "outcome"))
HEAL_SECONDS = Histogram(
    "ghapp_heal_seconds",
    "Time from the loss of a runner to its successor online, by configured pool; all others are pool other.",
    ("org", "pool"),
    ("shard",),
    buckets=(30.0, 60.0, 120.0, 180.0, 300.0, 600.0, 1200.0, 3600.0, 14_400.0),
)

LAST_SWEEP = Gauge("ghapp_last_sweep_timestamp_seconds", "When the last complete sweep began.", ("org",))
LAST_SWEEP_RUNNERS = Gauge("ghapp_last_sweep_runners", "Runners that the last complete sweep listed.", ("org",))
SWEEPS_FAILING_SINCE = Gauge(
    "ghapp_sweeps_failing_since_timestamp_seconds",
    "Since when sweeps have failed, and the reason.",
    ("org", "reason"),
)
SWEEPS = Counter("ghapp_sweeps_total", "Sweeps by outcome.", ("org", "outcome"))
SWEEP_CALLS = Counter("ghapp_sweep_calls_total", "Requests sent by sweeps.", ("org",))
SWEEP_BILLABLE_CALLS = Counter(
    "ghapp_sweep_billable_calls_total", "Requests sent by sweeps that count against the hourly rate limit.", ("org",)
)
SWEEP_SECONDS = Counter("ghapp_sweep_seconds_total", "Duration of all sweeps.", ("org",))

ORPHANS_REAPED = Counter(
    "ghapp_orphans_reaped_total", "Orphaned pods by outcome, and skipped ticks of the reaper.", ("org", "outcome")
)
REPORTS = Counter("ghapp_reports_total", "Attempts to post check runs, by outcome.", ("org", "outcome"))
