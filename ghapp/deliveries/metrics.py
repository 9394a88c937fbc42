"""The metrics of deliveries."""

from ghapp.metric import Counter, Gauge

INBOX_LAG = Gauge("ghapp_inbox_lag", "Deliveries that are stored but not yet processed.")
DEAD_LETTERS = Gauge("ghapp_dead_letters", "Deliveries that were given up and can be replayed.")
DELIVERIES = Counter("ghapp_deliveries_total", "Deliveries processed, by event and action.", ("event", "action"))
DELIVERIES_GIVEN_UP = Counter("ghapp_deliveries_given_up_total", "Deliveries moved to the dead letters.", ("event",))
REDELIVERIES = Counter("ghapp_redeliveries_total", "Redeliveries requested from GitHub.")
CHECK_REQUESTS = Counter("ghapp_check_requests_total", "Deliveries about check runs, by the action taken.", ("done",))
