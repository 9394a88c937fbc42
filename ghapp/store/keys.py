"""Every Redis key, in one place, so that a reader sees all that is kept, and a bound for each."""

from __future__ import annotations

INSTALLATIONS = "ghapp:installations"
"""hash: installation id → Installation. One entry an organization."""

DUE = "ghapp:due"
"""sorted set: installation id → when its next sweep is due. One entry an installation."""

DISCOVERY = "ghapp:discovery"
"""string: when GitHub is next asked where the App is installed."""

INBOX = "ghapp:inbox"
"""stream of deliveries; an entry goes when its effects are stored."""

INBOX_ASKED = "ghapp:inbox:asked"
"""set while a drain is on its way; expires by itself."""

INBOX_TRIES = "ghapp:inbox:tries"
"""hash: entry → how often its effects could not be stored. Entries go with theirs."""

DEAD_LETTERS = "ghapp:inbox:dead"
"""stream of deliveries that were given up, the last 1,000."""

WELL_UNTIL = "ghapp:inbox:well-until"
"""string: until when every delivery has come."""

LOOKED_TO = "ghapp:inbox:looked-to"
"""string: where the next look at GitHub's record of deliveries goes on; expires after an hour."""

REDELIVERIES = "ghapp:inbox:redeliveries"
"""list: ids of delivery attempts that GitHub is to repeat, at most 100; expires after an hour."""

OUTBOX = "ghapp:outbox"
"""hash: event id → Outgoing: what a pool's url has not accepted yet. Entries go when it has, or after a week."""

QUEUE_JOBS = "ghapp:queue:jobs"
"""set: ids of jobs that wait, are scheduled or run. An entry goes with its job. Written by `ghapp.queue.transitions`
alone, as its `KNOWN_JOBS`: the queue imports no store."""

TOKENS = "ghapp:tokens"
"""hash: SHA-256 of a bearer token → what it may. One entry a token."""

LOG_STORE_RESTS = "ghapp:log-store-rests"
"""string: that the log store gave no answer a moment ago; expires after a minute."""

PROBE = "ghapp:probe"
"""string: nothing; whether it can be written at all. Expires within a second."""

COUNTERS = "ghapp:counters"
"""hash: metric and labels → number. Bounded by the labels, which come from closed sets and pool names."""

QUARANTINE = "ghapp:quarantine"
"""hash: key and field → UnreadableRecord, bytes that are no record. At most 1,000; expires after a week."""


def seen(hour: int) -> str:
    """set: GUIDs of deliveries whose effects were stored in that hour; expires after three days."""
    return f"ghapp:seen:{hour}"


def runners(installation: int) -> str:
    """hash: runner id → Evidence. Entries go a day after their runner did."""
    return f"ghapp:{installation}:runners"


def names(installation: int) -> str:
    """hash: runner name → runner id."""
    return f"ghapp:{installation}:names"


def survey(installation: int) -> str:
    """string: the installation's Survey."""
    return f"ghapp:{installation}:survey"


def pages(installation: int) -> str:
    """hash: page number → (token, etag, body). One entry a hundred runners; goes with its token."""
    return f"ghapp:{installation}:pages"


def jobs(installation: int) -> str:
    """hash: job id → Job. Entries go when their job ends, or must have ended."""
    return f"ghapp:{installation}:jobs"


def taken(installation: int) -> str:
    """Sorted set: job id and runner id → when that runner took that job. Of an hour, and at most 20,000."""
    return f"ghapp:{installation}:taken"


def over(installation: int) -> str:
    """Prefix of strings: the Job of this id, which is over; each expires after an hour."""
    return f"ghapp:{installation}:over"


def fuses(installation: int) -> str:
    """hash: pool → Fuse."""
    return f"ghapp:{installation}:fuses"


def pauses(installation: int) -> str:
    """hash: pool, or * for the whole org → Pause."""
    return f"ghapp:{installation}:pauses"


def events(installation: int) -> str:
    """Stream of CloudEvents, the last 10,000."""
    return f"ghapp:{installation}:events"


def event(event_id: str) -> str:
    """string: an event of this id was appended; expires after a week."""
    return f"ghapp:event:{event_id}"


def budget(installation: int) -> str:
    """hash: limit, used, reset, skew, held, and the points of each of the last 61 seconds. One an installation."""
    return f"ghapp:{installation}:budget"


def flights(installation: int) -> str:
    """Sorted set: calls on their way → when they must have ended. At most `cadence.MOST_IN_FLIGHT`."""
    return f"ghapp:{installation}:flights"


def credential(installation: int) -> str:
    """string: the sealed installation token; expires before GitHub's does."""
    return f"ghapp:{installation}:credential"


def installation_state(installation: int) -> str:
    """string: GitHub's last answer about the installation; expires after ten seconds."""
    return f"ghapp:{installation}:state"


def lock(kind: str, of: str) -> str:
    """string: who holds the exclusive right; expires."""
    return f"ghapp:claim:{kind}:{of}"


def report(installation: int) -> str:
    """hash: posted, head, setback: what was last posted, where it belongs, and what keeps us from it."""
    return f"ghapp:{installation}:report"


def heartbeats(role: str) -> str:
    """Sorted set: process → when it was last alive. Entries go minutes after their process did."""
    return f"ghapp:heartbeats:{role}"


def deaths(installation: int) -> str:
    """hash: pod uid and end → Death. At most 10,000, of 30 days; expires a month after the last one."""
    return f"ghapp:{installation}:deaths"


def death_times(installation: int) -> str:
    """Sorted set: pod uid and end → when. One entry a death; goes with it."""
    return f"ghapp:{installation}:deaths:times"


def death_names(installation: int) -> str:
    """hash: runner name → pod uid and end of its latest death. At most one entry a death; goes with it."""
    return f"ghapp:{installation}:deaths:names"


def death_clean(installation: int) -> str:
    """Sorted set: of the deaths, those that were clean exits → when. Where there is no room they go first."""
    return f"ghapp:{installation}:deaths:clean"


def death_untold(installation: int) -> str:
    """Sorted set: of the deaths, those of which no event tells yet → when. They go when they are told, or forgotten."""
    return f"ghapp:{installation}:deaths:untold"


def pods(namespace: str) -> str:
    """hash: p/name → Pod, o/name → EphemeralRunner, at → when. What is in the namespace; expires after a week."""
    return f"ghapp:pods:{namespace}"


def trouble(place: str) -> str:
    """string: what keeps us from seeing a place of the cluster side; expires after a day."""
    return f"ghapp:trouble:{place}"


def places(installation: int) -> str:
    """hash: pool/namespace → when something of the pool was seen there. One entry a namespace that a pool is given."""
    return f"ghapp:{installation}:places"


def cluster_side(installation: int) -> str:
    """string: ClusterSide, what the last looks at the cluster found; expires after ten minutes."""
    return f"ghapp:{installation}:cluster-side"


def pod_claims(installation: int) -> str:
    """hash: pod → PodClaim. At most 10,000; expires a day after the last one was made."""
    return f"ghapp:{installation}:podclaims"


def pod_claim_expiries(installation: int) -> str:
    """Sorted set: pod → when its claim runs out. One entry a claim; goes with it."""
    return f"ghapp:{installation}:podclaims:expiries"


def post_mortem(death: str) -> str:
    """string: PostedMortem, the check run that tells of a death; expires after 30 days."""
    return f"ghapp:postmortem:{death}"


def said(installation: int, what: str) -> str:
    """string: that this was said; expires after a day. One entry a kind of thing that is said once."""
    return f"ghapp:{installation}:said:{what}"


def deploys(installation: int) -> str:
    """hash: pool → its Deploys. One entry a pool that is configured when it is told, of at most 8 shards."""
    return f"ghapp:{installation}:deploys"


def active(installation: int) -> str:
    """Prefix of strings: what a pool's command or URL says is active; each expires after five minutes."""
    return f"ghapp:{installation}:active"


def gates(installation: int) -> str:
    """hash: pool/shard → Round, a check run on a deployed commit. At most 8 a pool; expires a month after the last."""
    return f"ghapp:{installation}:gates"


def leaks(installation: int) -> str:
    """string: Tick, the reaper's memory of each stamped pod. Grows with them; expires a day after its last tick."""
    return f"ghapp:{installation}:leaks"


def orphans(installation: int) -> str:
    """hash: pod uid → Orphan whose deletion was begun and is not finished. At most 1,000; expires after a day."""
    return f"ghapp:{installation}:leaks:begun"


def reaped(installation: int) -> str:
    """Sorted set: when each pod of the last day was reaped, by its uid."""
    return f"ghapp:{installation}:leaks:reaped"
