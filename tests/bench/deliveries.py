"""Durable deliveries a second through the real `/webhook`, against a server that reads the body and forgets it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import cast

import msgspec
from redis.asyncio import Redis

from ghapp.github.deliveries import decode
from ghapp.sandbox.deliveries import signature
from ghapp.sandbox.documents import AccountDocuments
from ghapp.sandbox.fleet.jobs import JobAction, SandboxJob, SandboxRepository
from ghapp.sandbox.webhook_events import workflow_job
from ghapp.store import keys
from ghapp.store.connect import connect
from tests.bench.figure import Figure, middle
from tests.bench.load import GUID_LENGTH, Outcome, Plan, Target, alternate
from tests.bench.places import POOL, WEBHOOK_SECRET, bare, web
from tests.support.local_redis import embedded_redis

BODY_BYTES = 16 * 1024
BODIES = 256
PARTS, ROUNDS, SECONDS, CONNECTIONS = 3, 5, 0.5, 64
GUIDS = "be9c40d0-0000-4000-8000"
LEAST = 0.62

_Rows = list[tuple[bytes, dict[bytes, bytes]]]


def measure(folder: Path) -> list[Figure]:
    """The figure. The Redis behind it writes to disk, as one in production does."""
    requests = [_request(_body(number)) for number in range(BODIES)]
    with embedded_redis(folder / "inbox", durable=True) as url, web(url, folder) as ours, bare(folder) as theirs:
        targets = [
            Target(*ours, requests=requests, status=202, guids=GUIDS),
            Target(*theirs, requests=requests, status=202, guids=GUIDS),
        ]
        parts = [_part(targets, url, folder) for _ in range(PARTS)]
    measured, against = (
        Outcome(sum(each.answers for each in part), [each for outcome in part for each in outcome.rounds])
        for part in zip(*parts, strict=True)
    )
    ratio, spread = middle(measured.against(against))
    return [
        Figure(
            "durable deliveries/s, 16 KB signed, 64 connections",
            f"{measured.rate:,.0f}/s",
            ratio,
            against=f"bare Starlette {against.rate:,.0f}/s",
            spread=spread,
            least=LEAST,
            note=f"all {measured.answers:,} answered 202 are in the stream, each once; {measured.summary()}; "
            f"bare: {against.summary()}",
        )
    ]


def _part(targets: list[Target], url: str, folder: Path) -> list[Outcome]:
    """Some of the rounds: in all of them together the inbox would be full, for no worker drains it."""
    ours, theirs = alternate(Plan(targets, ROUNDS, SECONDS, CONNECTIONS), folder)
    if (kept := asyncio.run(_kept(url))) != ours.answers:
        raise RuntimeError(f"{ours.answers} deliveries were answered 202, and {kept} are in the stream")
    return [ours, theirs]


async def _kept(url: str) -> int:
    """How many different deliveries are in the stream; none of them may be there twice, or without its facts."""
    redis: Redis = connect(url)
    guids: set[bytes] = set()
    entries, after = 0, "-"
    while rows := cast(_Rows, await redis.xrange(keys.INBOX, min=after, count=5000)):
        entries += len(rows)
        guids.update(row[b"g"] for _, row in rows)
        if decode(rows[-1][1][b"f"]).workflow_job is None:
            raise RuntimeError("a delivery was kept without what it says")
        after = "(" + rows[-1][0].decode()
    await redis.delete(keys.INBOX)
    await redis.aclose()
    if len(guids) != entries:
        raise RuntimeError(f"{entries} entries for {len(guids)} deliveries")
    return entries


def _request(body: bytes) -> bytes:
    """A POST as GitHub sends it; its GUID is put in when it is sent."""
    head = (
        "POST /webhook HTTP/1.1\r\nHost: ghapp.example\r\nAccept: */*\r\nContent-Type: application/json\r\n"
        "User-Agent: GitHub-Hookshot/0000000\r\nX-GitHub-Delivery: {guid}\r\nX-GitHub-Event: workflow_job\r\n"
        "X-GitHub-Hook-ID: 1\r\nX-GitHub-Hook-Installation-Target-ID: 1\r\n"
        "X-GitHub-Hook-Installation-Target-Type: integration\r\n"
        f"X-Hub-Signature-256: {signature(WEBHOOK_SECRET, body)}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def _body(number: int) -> bytes:
    """A `workflow_job` payload of 16 KB, its steps as many as it takes: a long job's are that large."""
    documents, now = AccountDocuments("https://api.github.com"), 1_790_000_000.0 + number
    repository = SandboxRepository(id=1000 + number % 7, owner="acme", name=f"service-{number % 7}")
    organization = documents.organization("acme", 1)
    action: JobAction = ("queued", "in_progress", "completed")[number % 3]
    job = SandboxJob(
        id=50_000_000_000 + number,
        run_id=40_000_000_000 + number,
        repository=repository,
        labels=("self-hosted", "linux", "x64", POOL),
        head_sha=f"{number:040x}",
        created_at=now,
        duration=60.0,
        status=action,
        started_at=None if action == "queued" else now + 3,
        completed_at=now + 63 if action == "completed" else None,
        conclusion="success" if action == "completed" else None,
        runner_id=None if action == "queued" else 1 + number % 300,
        runner_name=None if action == "queued" else f"{POOL}-{number % 300:05x}",
    )
    payload = workflow_job(action, job, "https://api.github.com") | {
        "repository": documents.repository(repository, documents.account("acme", 1)),
        "organization": organization,
        "sender": documents.account("octocat", 2, "User"),
        "installation": {"id": 77, "node_id": "I_77"},
    }
    steps = payload["workflow_job"]["steps"]
    while len(encoded := msgspec.json.encode(payload)) < BODY_BYTES:
        steps.append(
            {
                "name": f"Run the {len(steps)}th suite of tests",
                "status": "completed",
                "conclusion": "success",
                "number": len(steps) + 1,
                "started_at": "2026-11-20T12:00:00Z",
                "completed_at": "2026-11-20T12:00:09Z",
            }
        )
    return encoded


assert len(GUIDS) + 1 + 12 == GUID_LENGTH
