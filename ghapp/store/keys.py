"""All Redis keys, each with its type, its content and its bound."""

from __future__ import annotations

from hashlib import sha1

INSTALLATIONS = "ghapp:installations"
"""hash: installation id → Installation. One entry per organization."""

UNINSTALLED = "ghapp:uninstalled"
"""hash: installation id → when it was uninstalled (epoch milliseconds). Deleted when its data has expired."""

UNINSTALLED_CURSOR = "ghapp:uninstalled:cursor"
"""string: where the next search for their keys continues; expires after 30 days."""

DUE = "ghapp:due"
"""sorted set: installation id → when its next sweep is due. One entry per installation."""

DISCOVERY = "ghapp:discovery"
"""string: when GitHub is next asked for the App's installations."""

INBOX = "ghapp:inbox"
"""stream of deliveries; entries are deleted after their effects are stored."""

INBOX_ASKED = "ghapp:inbox:asked"
"""string: set while a drain is requested; expires by itself."""

INBOX_TRIES = "ghapp:inbox:tries"
"""hash: entry → how often it could not be processed. Deleted with its entry."""

DEAD_LETTERS = "ghapp:inbox:dead"
"""stream of deliveries that were given up, the last 1,000."""

COMPLETE_UNTIL = "ghapp:inbox:well-until"
"""string: until when all deliveries have arrived."""

REDELIVERY_CURSOR = "ghapp:inbox:looked-to"
"""string: where the next search of GitHub's delivery log continues; expires after an hour."""

REDELIVERIES = "ghapp:inbox:redeliveries"
"""list: ids of delivery attempts that GitHub is to repeat, at most 1,000; expires after an hour."""

REDELIVERY_REQUEST = "ghapp:inbox:redelivery-request"
"""string: when redeliveries were last requested, and which delivery had come last before; expires after an hour."""

REDELIVERED = "ghapp:inbox:redelivered"
"""Sorted set: GUID of a delivery that failed or was replayed → when that was known. Of two hours, at most 20,000."""

DELIVERY_LOG = "ghapp:delivery-log"
"""string: DeliveryLog, GitHub's delivery log as it was last read. One entry per installation that misses deliveries."""

OUTBOX = "ghapp:outbox"
"""hash: event id → Outgoing: events that a pool's url has not accepted. Deleted when accepted, or after a week."""

OUTBOX_ADDED = "ghapp:outbox:added"
"""list: one entry once an event was added, which wakes up the process that delivers; expires after a minute."""

NOTIFICATIONS = "ghapp:notifications"
"""hash: random id → PendingNotification, of one receiver. At most 1,000; deleted when sent, or after a day."""

NAME_OWNERS = "ghapp:name-owners"
"""hash: a name that an installation had, in lower case → its account's id. At most `installations.MOST_OWNERS`."""

QUEUE_JOBS = "ghapp:queue:jobs"
"""set: ids of jobs that wait, are scheduled or run. Deleted with the job. Written only by `ghapp.queue.transitions`,
as its `KNOWN_JOBS`: the queue must not import the store."""

TOKENS = "ghapp:tokens"
"""hash: SHA-256 of an API token → Token. One entry per token."""

ALL_ORGS = 0
"""In place of an installation's id: what concerns all of them."""

LOG_STORE_RESTS = "ghapp:log-store-rests"
"""string: set after the log store gave no answer; expires after a minute."""

PROBE = "ghapp:probe"
"""string: doctor's write probe. Expires within a second."""

COUNTERS = "ghapp:counters"
"""hash: metric and labels → number. Bounded by the labels, which come from closed sets and pool names."""


def metric_shards(installation: int, pool: str) -> str:
    """set: shards of a configured pool that have counters of their own; at most `metric_counters.MOST_SHARDS`."""
    return f"ghapp:{installation}:metric-shards:{pool}"


LEFT_OUT = "ghapp:left-out"
"""hash: kind of row → LastLeftOut, what could not be read of others' answers. One entry per kind; expires in a week."""

QUARANTINE = "ghapp:quarantine"
"""hash: key and field → UnreadableRecord, bytes that are not a record. At most 1,000; expires after a week."""


def former_expiries(installation: int) -> str:
    """hash: key → when it expired (epoch milliseconds, -1: never) before the App was uninstalled. Expires with them."""
    return f"ghapp:{installation}:former-expiries"


def seen(kind: str, window: int, level: int, part: int) -> str:
    """set: hashes of GUIDs of deliveries whose effects were stored in that quarter of a day, at most some 500.

    Expires three days after its end. Of the kind `jobs`: of ids of jobs whose end had its effect then.
    """
    return f"ghapp:seen{kind and '-'}{kind}:{window}:{level}:{part}"


def seen_count(kind: str, window: int) -> str:
    """string: how many were marked in that quarter of a day. Expires with them."""
    return f"ghapp:seen{kind and '-'}{kind}:{window}:count"


def seen_guids(hour: int) -> str:
    """set: GUIDs of deliveries whose effects were stored in that hour. Written only by the previous version."""
    return f"ghapp:seen:{hour}"


def delivery_arrivals(installation: int) -> str:
    """string: DeliveryArrivals, when deliveries about jobs arrived and how late; expires after a month."""
    return f"ghapp:{installation}:delivery-arrivals"


def delivery_expected(installation: int) -> str:
    """string: since when a delivery must have come (epoch seconds); expires after a month."""
    return f"ghapp:{installation}:delivery-expected"


def runners(installation: int) -> str:
    """hash: runner id → Evidence. Deleted a day after the runner left."""
    return f"ghapp:{installation}:runners"


def names(installation: int) -> str:
    """hash: runner name → runner id, of the first runners."""
    return f"ghapp:{installation}:names"


def names_part(installation: int, name: str) -> str:
    """hash: the same, of one of 256 parts of all further runners, by a hash of the name."""
    return f"{names(installation)}:{sha1(name.encode(), usedforsecurity=False).hexdigest()[:2]}"


def runner_changes(installation: int) -> str:
    """stream: the ids of runners whose records were changed by one write. Created by its readers; bounded; expires."""
    return f"ghapp:{installation}:changes"


def settled(installation: int) -> str:
    """string: Settled; empty while a sweep judges. Deleted by each write of a runner or a job; expires."""
    return f"ghapp:{installation}:settled"


def survey(installation: int) -> str:
    """string: the installation's Survey."""
    return f"ghapp:{installation}:survey"


def pages(installation: int) -> str:
    """hash: page number → (token, etag, body). One entry per hundred runners; deleted with its token."""
    return f"ghapp:{installation}:pages"


def jobs(installation: int) -> str:
    """hash: job id → Job. Deleted when the job ends, or must have ended."""
    return f"ghapp:{installation}:jobs"


def taken(installation: int) -> str:
    """Sorted set: job id and runner id → when that runner took that job. Of one hour, at most 20,000."""
    return f"ghapp:{installation}:taken"


def over(installation: int) -> str:
    """Prefix of strings: the Job of this id, which is over; each expires after an hour."""
    return f"ghapp:{installation}:over"


def creations(installation: int) -> str:
    """Sorted set: a creation of a check run → when it was requested. Of one hour, at most 480."""
    return f"ghapp:{installation}:creations"


def creations_waiting(installation: int, share: float) -> str:
    """Sorted set: a check run that waits to be created → its turn. Of the kinds with that share of the limits."""
    return f"ghapp:{installation}:creations-waiting:{share:g}"


def approval(installation: int) -> str:
    """Prefix of strings: when the job of this id was approved; empty while it waits. Expires an hour after its end."""
    return f"ghapp:{installation}:approval"


def ended(installation: int) -> str:
    """Sorted set: id of an ended job → when it ended. Of one hour, at most 5,000; no GitHub-hosted jobs."""
    return f"ghapp:{installation}:ended"


def session(digest: str) -> str:
    """string: a sealed Session, by the SHA-256 of its cookie; expires eight hours after the sign-in."""
    return f"ghapp:session:{digest}"


def sign_in(digest: str) -> str:
    """string: a sealed SignInAttempt, by the SHA-256 of its state; expires after ten minutes."""
    return f"ghapp:sign-in:{digest}"


def audit(installation: int, trail: str = "changes") -> str:
    """list: AuditEntry of an `audit.Trail`, the latest first, at most 1,000; expires a year after the last one."""
    return f"ghapp:{installation}:audit:{trail}"


def fuses(installation: int) -> str:
    """hash: pool → Fuse."""
    return f"ghapp:{installation}:fuses"


def incidents(installation: int) -> str:
    """hash: id → LossIncident. At most 500 and 4 MiB, of a month since their end; expires a month after the last."""
    return f"ghapp:{installation}:incidents"


def pauses(installation: int) -> str:
    """hash: pool, or * for the whole org → Pause."""
    return f"ghapp:{installation}:pauses"


def notified(installation: int) -> str:
    """hash: topic and subject → Notified. One entry per open condition, and an hour longer."""
    return f"ghapp:{installation}:notified"


def events(installation: int) -> str:
    """Stream of CloudEvents, the last 10,000."""
    return f"ghapp:{installation}:events"


def event(event_id: str) -> str:
    """string: an event of this id was appended; expires after a week."""
    return f"ghapp:event:{event_id}"


def budget(installation: int) -> str:
    """hash: limit, used, reset, skew, held, and the points of each of the last 61 seconds that has some."""
    return f"ghapp:{installation}:budget"


def flights(installation: int) -> str:
    """Sorted set: calls in flight → when they must have ended. At most `pacing.MOST_IN_FLIGHT`."""
    return f"ghapp:{installation}:flights"


def credential(installation: int) -> str:
    """string: the sealed installation token; expires before GitHub's does."""
    return f"ghapp:{installation}:credential"


def alive_looks(installation: int) -> str:
    """string: when the bucket of looks for `…/alive` is full again (epoch seconds); expires after some minutes."""
    return f"ghapp:{installation}:alive-looks"


def installation_state(installation: int) -> str:
    """string: GitHub's last answer about the installation; expires after ten seconds."""
    return f"ghapp:{installation}:state"


def lock(kind: str, of: str) -> str:
    """string: the token of the lock's holder; expires."""
    return f"ghapp:claim:{kind}:{of}"


def report(installation: int) -> str:
    """hash: posted, head, setback: the last post, the branch's head, and the last failure to post."""
    return f"ghapp:{installation}:report"


CLOCKS_OFF = "ghapp:clocks-off"
"""Processes whose machine has another time than Redis, each with the seconds; scored by when it was seen."""


def heartbeats(role: str) -> str:
    """Sorted set: process → its last heartbeat. Deleted minutes after the process ended."""
    return f"ghapp:heartbeats:{role}"


def deaths(installation: int) -> str:
    """hash: pod uid and end → Death. At most 10,000, of 30 days; expires a month after the last one."""
    return f"ghapp:{installation}:deaths"


def death_times(installation: int) -> str:
    """Sorted set: pod uid and end → when. One entry per death; deleted with it."""
    return f"ghapp:{installation}:deaths:times"


def death_names(installation: int) -> str:
    """hash: runner name → pod uid and end of its latest death. At most one entry per death; deleted with it."""
    return f"ghapp:{installation}:deaths:names"


def death_clean(installation: int) -> str:
    """Sorted set: deaths that were clean exits → when. Deleted first when the store is full."""
    return f"ghapp:{installation}:deaths:clean"


def deaths_unpublished(installation: int) -> str:
    """Sorted set: deaths without an event → when. Deleted when the event is appended, or with the death."""
    return f"ghapp:{installation}:deaths:untold"


def pods(namespace: str) -> str:
    """hash: p/name → Pod, o/name → EphemeralRunner, at → when. A namespace's snapshot; expires after a week."""
    return f"ghapp:pods:{namespace}"


def pod_ends(namespace: str) -> str:
    """stream: PodEnd. Entries are deleted when the death is recorded; expires a week after the last one."""
    return f"ghapp:pod-ends:{namespace}"


def trouble(place: str) -> str:
    """string: the last error of a source of cluster data; expires after a quarter of an hour."""
    return f"ghapp:trouble:{place}"


def places(installation: int) -> str:
    """hash: pool/namespace → when a pod of the pool was seen there. One entry per configured namespace of a pool."""
    return f"ghapp:{installation}:places"


def cluster_side(installation: int) -> str:
    """string: ClusterSummary, the result of the last cluster snapshots; expires after ten minutes."""
    return f"ghapp:{installation}:cluster-side"


def pod_claims(installation: int) -> str:
    """hash: pod → PodClaim. At most 10,000; expires a day after the last claim."""
    return f"ghapp:{installation}:podclaims"


def pod_claim_expiries(installation: int) -> str:
    """Sorted set: pod → when its claim expires. One entry per claim; deleted with it."""
    return f"ghapp:{installation}:podclaims:expiries"


def post_mortem(death: str) -> str:
    """string: PostedMortem, the check run of a death; expires after 30 days."""
    return f"ghapp:postmortem:{death}"


def rerun(installation: int, job_id: int) -> str:
    """string: Rerun, the one re-run of a job; expires after 31 days, when GitHub re-runs the job no more."""
    return f"ghapp:{installation}:rerun:{job_id}"


def rerun_note(installation: int, job_id: int) -> str:
    """string: RerunNote, why the last try to re-run a job sent no request. Expires after a week."""
    return f"ghapp:{installation}:rerun-note:{job_id}"


def reruns_of_hour(installation: int, repository: str, hour: int) -> str:
    """string: number of unasked re-runs of a repository's jobs in that hour; expires after an hour."""
    return f"ghapp:{installation}:reruns:{repository.lower()}:{hour}"


def published(installation: int, what: str) -> str:
    """string: marks a message as published; expires after a day. One entry per kind of message."""
    return f"ghapp:{installation}:said:{what}"


def deploys(installation: int) -> str:
    """hash: pool → its Deploys. One entry per pool that was configured at a deploy, of at most 8 shards."""
    return f"ghapp:{installation}:deploys"


def active(installation: int) -> str:
    """Prefix of strings: the active shard by the pool's command or URL; each expires after five minutes."""
    return f"ghapp:{installation}:active"


def gates(installation: int) -> str:
    """hash: pool/shard → GateCheck of a deployed commit. At most 8 per pool; expires a month after the last."""
    return f"ghapp:{installation}:gates"


def runner_groups(installation: int) -> str:
    """string: RunnerGroups of the org; expires after two hours."""
    return f"ghapp:{installation}:runner-groups"


def queue_checks(installation: int) -> str:
    """hash: repository@commit → QueueCheck. At most 2,000; expires three days after the last change."""
    return f"ghapp:{installation}:queue-checks"


def queue_posts(installation: int, hour: int) -> str:
    """string: number of posts of "Runner queue" in that hour; expires after an hour."""
    return f"ghapp:{installation}:queue-posts:{hour}"


def quiet(installation: int, repository: str) -> str:
    """string: 1 if the repository has the topic `ghapp-quiet`, else 0; expires after an hour."""
    return f"ghapp:{installation}:quiet:{repository.lower()}"


def leaks(installation: int) -> str:
    """string: Tick, the reaper's memory of each labelled pod. Grows with them; expires a day after the last tick."""
    return f"ghapp:{installation}:leaks"


def leak_fuses(installation: int) -> str:
    """Hash: the reaper's fuse of each pool, and of the installation."""
    return f"ghapp:{installation}:leaks:fuses"


def orphans(installation: int) -> str:
    """hash: pod uid → Orphan whose deletion is unfinished. At most 1,000; expires after a day."""
    return f"ghapp:{installation}:leaks:begun"


def reaped(installation: int) -> str:
    """Sorted set: when each pod of the last day was reaped, by its uid."""
    return f"ghapp:{installation}:leaks:reaped"


def history_counts(installation: int) -> str:
    """hash: step, name and pool → number. At most 20,000; expires a week after the last count.

    The first sweep that begins a quarter of an hour after the end of a step deletes its fields.
    """
    return f"ghapp:{installation}:history:counts"


def history_pools(installation: int) -> str:
    """hash: pool → when its history was written, to an hour. At most 100; expires 91 days after the last such time."""
    return f"ghapp:{installation}:history:pools"


def history_steps(installation: int, width: int, bucket: int, pool: str) -> str:
    """hash: begin of a step → HistoryStep. A day of steps of 300 s, or ten days of steps of an hour (`width`).

    Expires when its last step is no longer kept.
    """
    return f"ghapp:{installation}:history:{width}:{bucket}:{pool}"
