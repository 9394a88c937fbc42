"""The metrics of deaths and re-runs."""

from ghapp.metric import Counter

DEATHS = Counter(
    "ghapp_deaths_total",
    "Recorded deaths of runners, by cause and configured pool; all others are pool other. "
    "Without clean exits, as on pages and in commands: ghapp_clean_exits_total counts those.",
    ("org", "pool", "cause"),
)
CLEAN_EXITS = Counter(
    "ghapp_clean_exits_total",
    "Runners whose process finished its work and exited, by configured pool; all others are pool other.",
    ("org", "pool"),
)
RERUNS = Counter(
    "ghapp_reruns_total",
    "Tries to run a job again whose runner died, by outcome: accepted, refused by GitHub, or the reason against it.",
    ("org", "outcome"),
)
