"""The metrics of the cluster, as the watch sees it."""

from ghapp.metric import Gauge

WATCH_VIEW_AGE = Gauge("ghapp_watch_view_age_seconds", "Age of the watch's snapshot of each namespace.", ("namespace",))
PHANTOMS = Gauge("ghapp_phantoms", "Phantoms, which count as runners but are not, by kind.", ("org", "kind"))
