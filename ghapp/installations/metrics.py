"""The metrics of an installation's budget and schedule."""

from ghapp.metric import Gauge

BUDGET_LIMIT = Gauge("ghapp_budget_limit_calls", "GitHub's hourly rate limit.", ("org",))
BUDGET_USED = Gauge("ghapp_budget_used_calls", "Calls used of the hourly rate limit.", ("org",))
BUDGET_LEFT = Gauge("ghapp_budget_left_calls", "Calls that sweeps may still spend until the reset.", ("org",))
NEXT_SWEEP = Gauge("ghapp_next_sweep_timestamp_seconds", "When the next attempt to sweep is due.", ("org",))
