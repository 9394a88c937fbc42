"""All Redis keys: each with its type, its content, its bound in number and in time, and who writes and reads it.

`docs/keys.md` is made from these declarations: `python -m tests.store.keys_page --write`.
"""

from __future__ import annotations

from hashlib import sha1

from ghapp.store.key_kinds import DAY, HOUR, MINUTE, MONTH, WEEK, YEAR, KeyBound, KeyType, KeyUser, key, keys_of

STRING, HASH, SET, SORTED_SET = KeyType.STRING, KeyType.HASH, KeyType.SET, KeyType.SORTED_SET
LIST, STREAM = KeyType.LIST, KeyType.STREAM
WEB, WORKER, CLOCK, WATCH, COMMANDS = KeyUser
OF_SWEEPS = (WORKER, COMMANDS)
BOTH, ALL = (WEB, COMMANDS), (WEB, WORKER, CLOCK, WATCH, COMMANDS)

ONE_PER_INSTALLATION = "one entry per installation"
UNTIL_UNINSTALLED = "until it is uninstalled"
ALL_ORGS = 0
"""In place of an installation's id: what concerns all of them."""

INSTALLATIONS = key(
    "ghapp:installations",
    HASH,
    "installation id, negative for a repository's or an enterprise's scope → Installation",
    KeyBound(number="one entry per organization and other scope", time=UNTIL_UNINSTALLED),
    (WORKER,),
    ALL,
)

NAME_OWNERS = key(
    "ghapp:name-owners",
    HASH,
    "name that an installation had, in lower case → its account's id",
    KeyBound(most=20_000, time="none: the configuration and tokens outlive installations"),
    (WORKER,),
    ALL,
)

UNINSTALLED = key(
    "ghapp:uninstalled",
    HASH,
    "installation id → when it was uninstalled (epoch milliseconds)",
    KeyBound(number=ONE_PER_INSTALLATION, time="deleted after 30 days, when its data has expired"),
    (WORKER,),
    (WORKER,),
)

UNINSTALLED_CURSOR = key(
    "ghapp:uninstalled:cursor",
    STRING,
    "where the next search for their keys continues",
    KeyBound(most=1, seconds=MONTH),
    (WORKER,),
    (WORKER,),
)

DUE = key(
    "ghapp:due",
    SORTED_SET,
    "installation id → when its next sweep is due",
    KeyBound(number=ONE_PER_INSTALLATION, time=UNTIL_UNINSTALLED),
    (WORKER, COMMANDS),
    (WORKER, CLOCK, WEB, COMMANDS),
)

DISCOVERY = key(
    "ghapp:discovery",
    STRING,
    "when GitHub is next asked for the App's installations",
    KeyBound(most=1, time="replaced by each discovery"),
    (WORKER,),
    (CLOCK, WEB, COMMANDS),
)

INBOX = key(
    "ghapp:inbox",
    STREAM,
    "deliveries that have no effect yet",
    KeyBound(
        most=100_000,
        number="; further ones are answered 503",
        seconds=WEEK,
        time="; entries are deleted after their effects are stored",
    ),
    (WEB, COMMANDS),
    (WORKER, CLOCK, WEB, COMMANDS),
)

INBOX_ASKED = key(
    "ghapp:inbox:asked",
    STRING,
    "set while a drain is requested",
    KeyBound(most=1, seconds=1),
    (WEB,),
    (WEB,),
)

INBOX_TRIES = key(
    "ghapp:inbox:tries",
    HASH,
    "entry of the inbox → how often it could not be processed",
    KeyBound(number="one entry per entry of the inbox", seconds=WEEK, time="; deleted with it"),
    (WORKER,),
    (WORKER,),
)

DEAD_LETTERS = key(
    "ghapp:inbox:dead",
    STREAM,
    "deliveries that were given up, the latest",
    KeyBound(most=1_000, seconds=MONTH),
    (WORKER, WEB, COMMANDS),
    (WORKER, WEB, COMMANDS),
)

COMPLETE_UNTIL = key(
    "ghapp:inbox:complete-until",
    STRING,
    "until when all deliveries have arrived",
    KeyBound(most=1, time="replaced by each search of GitHub's delivery log"),
    (WORKER,),
    (WORKER, COMMANDS),
)

REDELIVERY_CURSOR = key(
    "ghapp:inbox:redelivery-cursor",
    STRING,
    "where the next search of GitHub's delivery log continues",
    KeyBound(most=1, seconds=HOUR),
    (WORKER,),
    (WORKER,),
)

REDELIVERIES = key(
    "ghapp:inbox:redeliveries",
    LIST,
    "ids of delivery attempts that GitHub is to repeat",
    KeyBound(most=1_000, seconds=HOUR),
    (WORKER,),
    (WORKER, CLOCK),
)

REDELIVERY_REQUEST = key(
    "ghapp:inbox:redelivery-request",
    STRING,
    "when redeliveries were last requested, and which delivery had come last before",
    KeyBound(most=1, seconds=HOUR),
    (WORKER,),
    (WORKER,),
)

REDELIVERED = key(
    "ghapp:inbox:redelivered",
    SORTED_SET,
    "GUID of a delivery that failed or was replayed → when that was known",
    KeyBound(most=20_000, seconds=2 * HOUR),
    (WORKER, WEB, COMMANDS),
    (WORKER,),
)

DELIVERY_LOG = key(
    "ghapp:delivery-log",
    STRING,
    "DeliveryLog, GitHub's delivery log as it was last read",
    KeyBound(number="one entry per installation that misses deliveries", time="replaced when it is read again"),
    (WORKER,),
    (WORKER, WEB, COMMANDS),
)

OUTBOX = key(
    "ghapp:outbox",
    HASH,
    "event id → Outgoing: events that a pool's url has not accepted",
    KeyBound(
        number="of each pool 1,000 news, and 1,000 requests: no more are granted while so many wait",
        time="news: a week; requests: until accepted, withdrawn or written off",
    ),
    (WORKER, WATCH, CLOCK),
    (CLOCK, WORKER),
)

OUTBOX_ADDED = key(
    "ghapp:outbox:added",
    LIST,
    "ids of events that were added to the outbox; wakes up the process that delivers",
    KeyBound(most=1_000, seconds=MINUTE),
    (WORKER, WATCH, CLOCK),
    (CLOCK,),
)

NOTIFICATIONS = key(
    "ghapp:notifications",
    HASH,
    "random id → PendingNotification, of one receiver",
    KeyBound(most=1_000, seconds=2 * DAY, time="; deleted when sent, or after a day"),
    (WORKER,),
    (WORKER,),
)

QUEUE_JOBS = key(
    "ghapp:queue:jobs",
    SET,
    "ids of jobs that wait, are scheduled or run. Written only by `ghapp.queue.transitions`",
    KeyBound(number="one entry per job; each has a key of what it is for", time="deleted with the job"),
    ALL,
    (CLOCK,),
)

TOKENS = key(
    "ghapp:tokens",
    HASH,
    "SHA-256 of an API token → Token",
    KeyBound(number="one entry per token that a person created", time="until it is revoked, or a month after its end"),
    (COMMANDS,),
    (WEB, COMMANDS),
)

LOG_STORE_BACKOFF = key(
    "ghapp:log-store-backoff",
    STRING,
    "set after the log store gave no answer",
    KeyBound(most=1, seconds=MINUTE),
    (WORKER,),
    (WORKER,),
)

PROBE = key(
    "ghapp:probe",
    STRING,
    "a write probe",
    KeyBound(most=1, seconds=1),
    (WEB, COMMANDS),
    (WEB, COMMANDS),
)

COUNTERS = key(
    "ghapp:counters",
    HASH,
    "metric and labels → number",
    KeyBound(
        number="labels come from closed sets, organizations and configured pools",
        time="kept, as Prometheus needs counters",
    ),
    ALL,
    (WEB,),
)


@keys_of(SET, KeyBound(most=20, time="kept, as the counters are"), (WORKER,), (WORKER,))
def metric_shards(installation: int, pool: str) -> str:
    """Shards of a configured pool that have counters of their own."""
    return f"ghapp:{installation}:metric-shards:{pool}"


LEFT_OUT = key(
    "ghapp:left-out",
    HASH,
    "kind of row → LastLeftOut, what could not be read of others' answers",
    KeyBound(number="one entry per kind", seconds=WEEK),
    (WORKER, WATCH, COMMANDS),
    (COMMANDS,),
)

QUARANTINE = key(
    "ghapp:quarantine",
    HASH,
    "key and field → UnreadableRecord, bytes that are not a record",
    KeyBound(most=1_000, seconds=WEEK),
    ALL,
    (WEB, WORKER, COMMANDS),
)


@keys_of(HASH, KeyBound(number="one entry per key of the installation", time="expires with them"), (WORKER,), (WORKER,))
def former_expiries(installation: int) -> str:
    """Key → when it expired (epoch milliseconds, -1: never) before the App was uninstalled."""
    return f"ghapp:{installation}:former-expiries"


@keys_of(
    SET,
    KeyBound(most=512, number=" or a few more; 32 keys per 12,800 deliveries", seconds=3 * DAY + 6 * HOUR),
    (WORKER,),
    (WORKER,),
    pattern="ghapp:seen[-{kind}]:{window}:{level}:{part}",
)
def seen(kind: str, window: int, level: int, part: int) -> str:
    """Hashes of GUIDs of deliveries whose effects were stored in that quarter of a day.

    Of the kind `jobs`: of ids of jobs whose end had its effect then.
    """
    return f"ghapp:seen{kind and '-'}{kind}:{window}:{level}:{part}"


@keys_of(
    STRING,
    KeyBound(number="13 of each kind", seconds=3 * DAY + 6 * HOUR),
    (WORKER,),
    (WORKER,),
    pattern="ghapp:seen[-{kind}]:{window}:count",
)
def seen_count(kind: str, window: int) -> str:
    """How many were marked in that quarter of a day."""
    return f"ghapp:seen{kind and '-'}{kind}:{window}:count"


@keys_of(STRING, KeyBound(number=ONE_PER_INSTALLATION, seconds=MONTH), (WORKER,), (WORKER, WEB, COMMANDS))
def delivery_arrivals(installation: int) -> str:
    """DeliveryArrivals, when deliveries about jobs arrived and how late."""
    return f"ghapp:{installation}:delivery-arrivals"


@keys_of(STRING, KeyBound(number=ONE_PER_INSTALLATION, seconds=MONTH), (WORKER,), (WORKER, WEB, COMMANDS))
def delivery_expected(installation: int) -> str:
    """Since when a delivery must have come (epoch seconds)."""
    return f"ghapp:{installation}:delivery-expected"


@keys_of(
    HASH,
    KeyBound(
        number="those of the last list, and 200,000 that left or were only delivered",
        time="a day after the runner left; a loss until it is replaced or written off, or a week",
    ),
    (WORKER, WEB, CLOCK),
    ALL,
)
def runners(installation: int) -> str:
    """Runner id → Evidence."""
    return f"ghapp:{installation}:runners"


@keys_of(HASH, KeyBound(most=128, time="deleted with the runner"), (WORKER, WEB, CLOCK), (WORKER, WEB, WATCH, COMMANDS))
def names(installation: int) -> str:
    """Runner name → runner id, of the first runners."""
    return f"ghapp:{installation}:names"


@keys_of(
    HASH,
    KeyBound(number="one entry per runner", time="deleted with the runner"),
    (WORKER, WEB, CLOCK),
    (WORKER, WEB, WATCH, COMMANDS),
    pattern="ghapp:{installation}:names:{part}",
)
def names_part(installation: int, name: str) -> str:
    """The same, of one of 256 parts of all further runners, by a hash of the name."""
    return f"{names(installation)}:{sha1(name.encode(), usedforsecurity=False).hexdigest()[:2]}"


@keys_of(STREAM, KeyBound(most=500, number=", or some more", seconds=2 * MINUTE), (WEB, WORKER), (WEB,))
def runner_changes(installation: int) -> str:
    """The ids of runners whose records were changed by one write. Created by its readers."""
    return f"ghapp:{installation}:changes"


@keys_of(STRING, KeyBound(number=ONE_PER_INSTALLATION, seconds=5 * MINUTE), (WORKER,), (WORKER,))
def settled(installation: int) -> str:
    """Settled; empty while a sweep judges. Deleted by each write of a runner or a job."""
    return f"ghapp:{installation}:settled"


@keys_of(STRING, KeyBound(number=ONE_PER_INSTALLATION, time=UNTIL_UNINSTALLED), (WORKER, COMMANDS), ALL)
def survey(installation: int) -> str:
    """The installation's Survey."""
    return f"ghapp:{installation}:survey"


@keys_of(
    HASH,
    KeyBound(number="one entry per hundred runners, at most 1,000", seconds=2 * HOUR),
    (WORKER, COMMANDS),
    (WORKER, COMMANDS),
)
def pages(installation: int) -> str:
    """Page number → (token, etag, body)."""
    return f"ghapp:{installation}:pages"


@keys_of(
    HASH,
    KeyBound(
        number="50,000, and what runs",
        time="when the job ends, or must have ended: queued a day, for an approval 30 days, running five days",
    ),
    (WORKER,),
    (WORKER, CLOCK, WEB, COMMANDS),
)
def jobs(installation: int) -> str:
    """Job id → Job, which is not over."""
    return f"ghapp:{installation}:jobs"


@keys_of(
    HASH,
    KeyBound(
        number="the jobs that have waited for half a minute",
        seconds=6 * DAY,
        time="; when the job has ended, with the next look at the queue",
    ),
    (WORKER,),
    (WORKER,),
)
def waits(installation: int) -> str:
    """Job id → the last reason for which the job waited, and the labels that no runner had."""
    return f"ghapp:{installation}:waits"


@keys_of(
    STRING,
    KeyBound(number="one per check run on a commit: 680 an hour; at most 200 ids each", seconds=MONTH),
    (WORKER,),
    (WEB, COMMANDS),
)
def check_run_jobs(installation: int, check_run: int) -> str:
    """The ids of the jobs that this check run "Runner post-mortem" or "Runner queue" is about."""
    return f"ghapp:{installation}:check-run-jobs:{check_run}"


@keys_of(SORTED_SET, KeyBound(most=100, seconds=MONTH), (WORKER,), (WEB, COMMANDS))
def pull(installation: int, repository: str, number: int) -> str:
    """Commit that was the head of this pull request → when it became known."""
    return f"ghapp:{installation}:pull:{repository.lower()}#{number}"


@keys_of(SORTED_SET, KeyBound(most=20_000, seconds=HOUR), (WORKER,), (WORKER, WEB, COMMANDS))
def taken(installation: int) -> str:
    """Job id and runner id → when that runner took that job."""
    return f"ghapp:{installation}:taken"


@keys_of(
    STRING,
    KeyBound(number="the 100,000 that `ended` has, and those of the last hour", seconds=MONTH),
    (WORKER,),
    (WORKER, WEB, COMMANDS),
)
def over(installation: int) -> str:
    """Prefix of keys: the Job of this id, which is over."""
    return f"ghapp:{installation}:over"


@keys_of(
    SET,
    KeyBound(number="the ids in `ended`, spread over 4,096 keys", seconds=MONTH),
    (WORKER,),
    (WORKER, WEB, COMMANDS),
)
def ended_by(installation: int, kind: str) -> str:
    """Prefix of keys: ids of ended jobs whose runner, commit or run falls into this bucket."""
    return f"ghapp:{installation}:ended-by:{kind}"


@keys_of(SORTED_SET, KeyBound(most=480, seconds=HOUR), (WORKER,), (WORKER,))
def creations(installation: int) -> str:
    """A creation of a check run → when it was requested."""
    return f"ghapp:{installation}:creations"


@keys_of(
    SORTED_SET,
    KeyBound(number="one entry per check run that waits", time="a minute after the last turn"),
    (WORKER,),
    (WORKER,),
)
def creations_waiting(installation: int, share: float) -> str:
    """A check run that waits to be created → its turn. Of the kinds with that share of the limits."""
    return f"ghapp:{installation}:creations-waiting:{share:g}"


@keys_of(
    STRING,
    KeyBound(number="one per job that needs an approval, or deploys", seconds=31 * DAY, time="; an hour after its end"),
    (WORKER,),
    (WORKER,),
)
def approval(installation: int) -> str:
    """Prefix of keys: when the job of this id was approved; empty or negative while it waits."""
    return f"ghapp:{installation}:approval"


@keys_of(SORTED_SET, KeyBound(most=100_000, seconds=MONTH), (WORKER,), (WEB, WORKER, COMMANDS))
def ended(installation: int) -> str:
    """Id of an ended job and its buckets in `ended_by` → when it ended; no GitHub-hosted jobs."""
    return f"ghapp:{installation}:ended"


@keys_of(STRING, KeyBound(number="one per sign-in that GitHub confirmed", seconds=8 * HOUR), (WEB,), (WEB,))
def session(digest: str) -> str:
    """A sealed Session, by the SHA-256 of its cookie."""
    return f"ghapp:session:{digest}"


@keys_of(STRING, KeyBound(number="at most 10,000, the latest", seconds=10 * MINUTE), (WEB,), (WEB,))
def sign_in(digest: str) -> str:
    """A sealed SignInAttempt, by the SHA-256 of its state."""
    return f"ghapp:sign-in:{digest}"


SIGN_INS = key(
    "ghapp:sign-ins",
    SORTED_SET,
    "key of a sign-in that is under way → when it began",
    KeyBound(most=10_000, seconds=10 * MINUTE),
    (WEB,),
    (WEB,),
)


@keys_of(LIST, KeyBound(most=1_200, seconds=YEAR), (WEB, WORKER, COMMANDS), (WEB, WORKER, COMMANDS))
def audit(installation: int, trail: str = "changes") -> str:
    """AuditEntry of an `audit.Trail`, the latest first."""
    return f"ghapp:{installation}:audit:{trail}"


@keys_of(HASH, KeyBound(most=400, seconds=8 * HOUR), (WEB, WORKER), (WEB, WORKER))
def presses(installation: int) -> str:
    """Id of a press of a button → Press; the same with `:done` → with its outcome."""
    return f"ghapp:{installation}:presses"


@keys_of(
    HASH,
    KeyBound(number="one entry per pool with losses", time="closed, and of a pool without runners: a week"),
    (WORKER, WEB, COMMANDS),
    ALL,
)
def fuses(installation: int) -> str:
    """Pool → Fuse; * for the installation and the scopes of its repositories."""
    return f"ghapp:{installation}:fuses"


@keys_of(STRING, KeyBound(number=ONE_PER_INSTALLATION, seconds=MINUTE), (WORKER,), (WORKER,))
def family_planned(installation: int) -> str:
    """When an installation and its repositories' scopes were last planned together, under their fuse *."""
    return f"ghapp:{installation}:family-planned"


@keys_of(HASH, KeyBound(most=500, number=" and 4 MiB", seconds=31 * DAY), (WORKER,), (WEB, COMMANDS, WORKER))
def incidents(installation: int) -> str:
    """Id → LossIncident."""
    return f"ghapp:{installation}:incidents"


@keys_of(
    HASH, KeyBound(number="one entry per pool that a person paused", time="until it is resumed"), (WEB, COMMANDS), ALL
)
def pauses(installation: int) -> str:
    """Pool, or * for the whole org → Pause."""
    return f"ghapp:{installation}:pauses"


@keys_of(HASH, KeyBound(number="one entry per open condition", time="an hour after it closed"), (WORKER,), (WORKER,))
def notified(installation: int) -> str:
    """Topic and subject → Notified."""
    return f"ghapp:{installation}:notified"


@keys_of(
    STREAM, KeyBound(most=10_000, number=", or some more", seconds=MONTH), (WORKER, WATCH), (WEB, WORKER, COMMANDS)
)
def events(installation: int) -> str:
    """CloudEvents, the latest."""
    return f"ghapp:{installation}:events"


@keys_of(SORTED_SET, KeyBound(most=20_000, seconds=WEEK), (WORKER, WATCH), (WORKER, WATCH))
def event_ids(installation: int, kind: str) -> str:
    """Id of an event of that type → when it was appended."""
    return f"ghapp:{installation}:event-ids:{kind}"


@keys_of(
    SORTED_SET,
    KeyBound(
        most=1_000,
        number="; older ones are dropped and counted",
        time="a week, when it is delivered or the next one comes",
    ),
    (WORKER, WATCH, CLOCK),
    (WORKER, WATCH),
)
def outbox_news(installation: int, pool: str) -> str:
    """Id of an event of the outbox that is no request → when it was added."""
    return f"ghapp:{installation}:outbox-news:{pool}"


@keys_of(HASH, KeyBound(most=66, time=UNTIL_UNINSTALLED), (WORKER, COMMANDS), (WORKER, WEB, COMMANDS))
def budget(installation: int) -> str:
    """Limit, used, reset, skew, held, and the points of each of the last 61 seconds that has some."""
    return f"ghapp:{installation}:budget"


@keys_of(HASH, KeyBound(number="one entry per scope", time="two hours after its last sweep"), (WORKER,), (WORKER,))
def sweep_costs(installation: int) -> str:
    """Scope that uses the installation's limit → the calls that its sweeps are expected to make an hour, and when."""
    return f"ghapp:{installation}:sweep-costs"


@keys_of(
    SORTED_SET,
    KeyBound(most=80, time="a minute after the call began, when the next one begins"),
    (WORKER, COMMANDS),
    (WORKER,),
)
def flights(installation: int) -> str:
    """Call in flight → when it must have ended."""
    return f"ghapp:{installation}:flights"


@keys_of(
    SORTED_SET,
    KeyBound(number="one entry per token that is to be minted", time="a minute after the last turn"),
    (WORKER, COMMANDS),
    (WORKER,),
)
def turns(installation: int) -> str:
    """Call that waits for the points of a minute → its turn."""
    return f"ghapp:{installation}:turns"


@keys_of(STRING, KeyBound(number=ONE_PER_INSTALLATION, seconds=HOUR), (WORKER, COMMANDS), (WORKER, COMMANDS))
def credential(installation: int) -> str:
    """The sealed installation token."""
    return f"ghapp:{installation}:credential"


@keys_of(STRING, KeyBound(number="one entry per token that GitHub refuses", seconds=10 * MINUTE), OF_SWEEPS, OF_SWEEPS)
def refused_token(installation: int, token: str) -> str:
    """Set if GitHub lately refused the enterprise's token with this hash."""
    return f"ghapp:{installation}:refused-token:{token}"


@keys_of(STRING, KeyBound(number=ONE_PER_INSTALLATION, seconds=DAY), OF_SWEEPS, OF_SWEEPS)
def repositories(installation: int) -> str:
    """Repositories that patterns of `[[scopes]]` take, 20,000 at most."""
    return f"ghapp:{installation}:repositories"


@keys_of(
    STRING, KeyBound(number=ONE_PER_INSTALLATION, time="when the bucket is full again, some minutes"), (WEB,), (WEB,)
)
def alive_looks(installation: int) -> str:
    """When the bucket of looks for `…/alive` is full again (epoch seconds)."""
    return f"ghapp:{installation}:alive-looks"


@keys_of(STRING, KeyBound(number=ONE_PER_INSTALLATION, seconds=10), (WORKER,), (WORKER,))
def installation_state(installation: int) -> str:
    """GitHub's last answer about the installation."""
    return f"ghapp:{installation}:state"


@keys_of(
    STRING,
    KeyBound(number="one per thing that is worked on", seconds=MINUTE, time="; 10 s by default, unless it is renewed"),
    (WORKER, CLOCK, WATCH, COMMANDS),
    ALL,
)
def lock(kind: str, of: str) -> str:
    """The token of the lock's holder."""
    return f"ghapp:lock:{kind}:{of}"


@keys_of(HASH, KeyBound(most=3, time=UNTIL_UNINSTALLED), (WORKER,), (WORKER, COMMANDS))
def report(installation: int) -> str:
    """posted, head, setback: the last post, the branch's head, and the last failure to post."""
    return f"ghapp:{installation}:report"


CLOCKS_OFF = key(
    "ghapp:clocks-off",
    SORTED_SET,
    "process whose machine has another time than Redis, with the seconds → when that was seen",
    KeyBound(number="one entry per process", seconds=HOUR, time="; ten minutes each"),
    (WEB, WORKER, CLOCK, WATCH),
    (COMMANDS,),
)


@keys_of(
    SORTED_SET,
    KeyBound(number="one entry per process", seconds=HOUR, time="; five minutes each"),
    (CLOCK, WATCH),
    (WEB, COMMANDS),
)
def heartbeats(role: str) -> str:
    """Process → its last heartbeat."""
    return f"ghapp:heartbeats:{role}"


@keys_of(HASH, KeyBound(most=10_000, seconds=MONTH), (WATCH, WORKER), (WEB, WORKER, COMMANDS))
def deaths(installation: int) -> str:
    """Pod uid and end → Death. When it is full, clean exits are deleted first."""
    return f"ghapp:{installation}:deaths"


@keys_of(SORTED_SET, KeyBound(most=10_000, seconds=MONTH), (WATCH, WORKER), (WEB, WORKER, COMMANDS))
def death_times(installation: int) -> str:
    """Pod uid and end → when."""
    return f"ghapp:{installation}:deaths:times"


@keys_of(HASH, KeyBound(most=10_000, seconds=MONTH), (WATCH, WORKER), (WEB, WORKER, COMMANDS))
def death_names(installation: int) -> str:
    """Runner name → pod uid and end of its latest death."""
    return f"ghapp:{installation}:deaths:names"


@keys_of(SORTED_SET, KeyBound(most=10_000, seconds=MONTH), (WATCH, WORKER), (WEB, WORKER))
def death_clean(installation: int) -> str:
    """Deaths that were clean exits → when."""
    return f"ghapp:{installation}:deaths:clean"


@keys_of(
    SORTED_SET,
    KeyBound(most=10_000, seconds=MONTH, time="; deleted when the event is appended"),
    (WATCH, WORKER),
    (WATCH, WORKER),
)
def deaths_unpublished(installation: int) -> str:
    """Deaths without an event → when."""
    return f"ghapp:{installation}:deaths:unpublished"


@keys_of(
    HASH,
    KeyBound(number="the objects of a configured namespace", seconds=WEEK),
    (WATCH,),
    (WORKER, WEB, WATCH, COMMANDS),
)
def pods(namespace: str) -> str:
    """p/name → Pod, o/name → EphemeralRunner, r/name → the objects of a runner, and when. A namespace's snapshot."""
    return f"ghapp:pods:{namespace}"


@keys_of(STRING, KeyBound(number="one per configured namespace", seconds=10 * MINUTE), (WATCH,), (WORKER,))
def scale_sets(namespace: str) -> str:
    """ARC's ScaleSets of a namespace: what each keeps without a job, and what it wants."""
    return f"ghapp:scale-sets:{namespace}"


@keys_of(
    STREAM,
    KeyBound(
        most=10_000, number=", or some more", seconds=WEEK, time="; deleted when the death is recorded, with its log"
    ),
    (WATCH,),
    (WATCH,),
)
def pod_ends(namespace: str) -> str:
    """PodEnd, which is yet to be recorded as a death, or whose death waits for its log."""
    return f"ghapp:pod-ends:{namespace}"


@keys_of(
    STRING,
    KeyBound(number="one per source: namespaces and kinds, the log store", seconds=15 * MINUTE),
    (WATCH, WORKER),
    (WORKER, WEB, COMMANDS),
)
def trouble(place: str) -> str:
    """The last error of a source of cluster data."""
    return f"ghapp:trouble:{place}"


@keys_of(
    HASH,
    KeyBound(number="one entry per namespace of a configured pool", seconds=MONTH),
    (WORKER, WATCH),
    (WORKER, COMMANDS),
)
def places(installation: int) -> str:
    """Pool/namespace → when a pod of the pool was seen there."""
    return f"ghapp:{installation}:places"


@keys_of(STRING, KeyBound(number=ONE_PER_INSTALLATION, seconds=10 * MINUTE), (WORKER,), (WEB, WORKER, COMMANDS))
def cluster_summary(installation: int) -> str:
    """ClusterSummary, the result of the last cluster snapshots."""
    return f"ghapp:{installation}:cluster-summary"


@keys_of(
    HASH,
    KeyBound(most=10_000, number="; further claims are refused", seconds=DAY + MINUTE),
    (WEB,),
    (WORKER, WEB, COMMANDS),
)
def pod_claims(installation: int) -> str:
    """Pod → PodClaim."""
    return f"ghapp:{installation}:podclaims"


@keys_of(SORTED_SET, KeyBound(most=10_000, seconds=DAY + MINUTE), (WEB,), (WORKER, WEB))
def pod_claim_expiries(installation: int) -> str:
    """Pod → when its claim expires."""
    return f"ghapp:{installation}:podclaims:expiries"


@keys_of(
    STRING,
    KeyBound(number="one per check run of a death: 480 an hour", seconds=MONTH),
    (WORKER,),
    (WORKER, WEB, COMMANDS),
)
def post_mortem(death: str) -> str:
    """PostedMortem, the check run of a death."""
    return f"ghapp:postmortem:{death}"


@keys_of(
    STRING, KeyBound(number="one per re-run that was requested", seconds=31 * DAY), (WORKER,), (WORKER, WEB, COMMANDS)
)
def rerun(installation: int, job_id: int) -> str:
    """Rerun, the one re-run of a job, which GitHub re-runs for 30 days."""
    return f"ghapp:{installation}:rerun:{job_id}"


@keys_of(STRING, KeyBound(number="one per job that died", seconds=WEEK), (WORKER,), (WEB, WORKER, COMMANDS))
def rerun_note(installation: int, job_id: int) -> str:
    """RerunNote, why the last try to re-run a job sent no request."""
    return f"ghapp:{installation}:rerun-note:{job_id}"


@keys_of(STRING, KeyBound(number="one per repository", seconds=HOUR), (WORKER,), (WORKER,))
def reruns_of_hour(installation: int, repository: str, hour: int) -> str:
    """Number of unasked re-runs of a repository's jobs in that hour."""
    return f"ghapp:{installation}:reruns:{repository.lower()}:{hour}"


@keys_of(STRING, KeyBound(number="one per kind of message", seconds=DAY), (WORKER,), (WORKER,))
def published(installation: int, what: str) -> str:
    """Marks a message as published."""
    return f"ghapp:{installation}:published:{what}"


@keys_of(
    HASH,
    KeyBound(number="one entry per pool that was configured at a deploy", time=UNTIL_UNINSTALLED),
    (WEB, COMMANDS),
    (WEB, WORKER, CLOCK, COMMANDS),
)
def deploys(installation: int) -> str:
    """Pool → its Deploys, of at most 8 shards."""
    return f"ghapp:{installation}:deploys"


@keys_of(STRING, KeyBound(number="one per configured pool", seconds=5 * MINUTE), (WORKER,), (WEB, WORKER, COMMANDS))
def active(installation: int) -> str:
    """Prefix of keys: the active shard by the pool's command or URL."""
    return f"ghapp:{installation}:active"


@keys_of(HASH, KeyBound(number="8 per configured pool", seconds=MONTH), (WORKER,), (WORKER, CLOCK, WEB))
def gates(installation: int) -> str:
    """Pool/shard → GateCheck of a deployed commit."""
    return f"ghapp:{installation}:gates"


@keys_of(STRING, KeyBound(number=ONE_PER_INSTALLATION, seconds=2 * HOUR), (WORKER,), (WORKER, WEB))
def runner_groups(installation: int) -> str:
    """RunnerGroups of the org."""
    return f"ghapp:{installation}:runner-groups"


@keys_of(
    HASH,
    KeyBound(number="one entry per version that runs, for which GitHub was asked", seconds=MONTH),
    (WORKER,),
    (WORKER, WEB, COMMANDS),
)
def runner_versions(installation: int) -> str:
    """Version of the runner → EndDates, as GitHub last reported them."""
    return f"ghapp:{installation}:runner-versions"


@keys_of(
    HASH,
    KeyBound(most=2_000, number="; no other commit gets one meanwhile", seconds=3 * DAY),
    (WORKER,),
    (WORKER, CLOCK),
)
def queue_checks(installation: int) -> str:
    """Repository@commit → QueueCheck."""
    return f"ghapp:{installation}:queue-checks"


@keys_of(STRING, KeyBound(number="two per installation", seconds=HOUR), (WORKER,), (WORKER,))
def queue_posts(installation: int, hour: int) -> str:
    """Number of posts of "Runner queue" in that hour."""
    return f"ghapp:{installation}:queue-posts:{hour}"


@keys_of(STRING, KeyBound(number="one per repository", seconds=HOUR), (WORKER,), (WORKER,))
def quiet(installation: int, repository: str) -> str:
    """1 if the repository has the topic `ghapp-quiet`, else 0."""
    return f"ghapp:{installation}:quiet:{repository.lower()}"


@keys_of(STRING, KeyBound(number="one entry per stamped pod", seconds=DAY), (WORKER,), (WORKER, WEB, COMMANDS))
def leaks(installation: int) -> str:
    """Tick, the reaper's memory of each stamped pod."""
    return f"ghapp:{installation}:leaks"


@keys_of(
    HASH,
    KeyBound(number="one entry per pool", time="until it closes"),
    (WORKER, WEB, COMMANDS),
    (WORKER, WEB, COMMANDS),
)
def leak_fuses(installation: int) -> str:
    """Pool → the reaper's fuse, if it is not closed; * for the installation."""
    return f"ghapp:{installation}:leaks:fuses"


@keys_of(HASH, KeyBound(most=1_000, number="; meanwhile no other deletion begins", seconds=DAY), (WORKER,), (WORKER,))
def orphans(installation: int) -> str:
    """Pod uid → Orphan whose deletion is unfinished."""
    return f"ghapp:{installation}:leaks:unfinished"


@keys_of(SORTED_SET, KeyBound(most=10_000, seconds=WEEK), (WORKER,), (WORKER, WATCH))
def own_deletions(installation: int) -> str:
    """Uid of a pod or ARC object → when ghapp requested its deletion."""
    return f"ghapp:{installation}:own-deletions"


@keys_of(SORTED_SET, KeyBound(most=10_000, seconds=DAY), (WORKER,), (WORKER,))
def reaped(installation: int) -> str:
    """When each pod of the last day was reaped, by its uid."""
    return f"ghapp:{installation}:leaks:reaped"


@keys_of(
    HASH,
    KeyBound(
        most=20_000,
        number=", or some more: those of the pool `other`",
        seconds=WEEK,
        time="; a quarter of an hour after the end of a step",
    ),
    (WORKER, WATCH, COMMANDS),
    (WORKER,),
)
def history_counts(installation: int) -> str:
    """Step, name and pool → number, which a sweep joins to the history."""
    return f"ghapp:{installation}:history:counts"


@keys_of(HASH, KeyBound(most=100, seconds=91 * DAY), (WORKER,), (WORKER, WEB))
def history_pools(installation: int) -> str:
    """Pool → when its history was written, to an hour."""
    return f"ghapp:{installation}:history:pools"


@keys_of(
    HASH,
    KeyBound(most=288, number=", of 102 pools", time="when its last step is no longer kept: 8 days, or 100 days"),
    (WORKER,),
    (WEB, WORKER, COMMANDS),
)
def history_steps(installation: int, width: int, bucket: int, pool: str) -> str:
    """Begin of a step → HistoryStep. A day of steps of 300 s, or ten days of steps of an hour (`width`)."""
    return f"ghapp:{installation}:history:{width}:{bucket}:{pool}"
