"""Webhook deliveries as values: signature check, and the few fields that this App uses. No I/O.

A payload of some ten kilobytes becomes a `Delivery` of a few hundred bytes; the payload itself is never stored. What
is odd in it is left out (`ghapp.decoding`): GitHub would send a refused delivery again, and it would be as odd then.
"""

from __future__ import annotations

import hmac
import uuid
from collections.abc import Sequence
from typing import Annotated
from urllib.parse import parse_qs

import msgspec

from ghapp.decoding import MOST_LABELS, Count, Id, LeftOut, Moment, Name, RowDecoder, Text
from ghapp.decoding import decode as decode_json
from ghapp.errors import MalformedDeliveryError
from ghapp.workflow_jobs.job_steps import StepState, job_steps

FORM = "application/x-www-form-urlencoded"
SIGNATURE_PREFIX = "sha256="


class Account(msgspec.Struct, frozen=True, omit_defaults=True):
    """An organization or a user."""

    login: Name
    id: Count = 0


class InstalledAccount(Account, frozen=True, omit_defaults=True):
    """The account of an installation; `type` is "User" for a person's."""

    type: Text = ""


class DeliveredInstallation(msgspec.Struct, frozen=True, omit_defaults=True):
    """The installation of a delivery; fields other than `id` are only in `installation` events."""

    id: Id
    account: InstalledAccount | None = None
    suspended_at: Text | None = None
    permissions: Annotated[dict[str, Text], msgspec.Meta(max_length=MOST_PERMISSIONS)] = {}


class Repository(msgspec.Struct, frozen=True, omit_defaults=True):
    """The repository of an event."""

    full_name: Name
    default_branch: Text = ""
    private: bool | None = None
    id: Count = 0


MOST_PERMISSIONS = 200
"""Of an installation. GitHub has some eighty."""

LARGEST_STEPS_BYTES = 1024 * 1024
"""Of a job's steps, some thousand of them."""

MOST_ODD = 10
"""Odd parts of a delivery that are kept."""

UNFINISHED = ("failure", "cancelled", "timed_out")
"""Conclusions of jobs that ended badly."""


class DeliveredStep(msgspec.Struct, frozen=True, omit_defaults=True):
    """A step of a job."""

    number: Count = 0
    status: Text = ""
    conclusion: Text | None = None
    started_at: Text | None = None
    name: Text = ""

    @property
    def state(self) -> StepState:
        """The step as a value."""
        return StepState(self.number, self.status, self.conclusion, self.started_at is not None, self.name)


class DeliveredSteps(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the steps of a job that ended badly show; see `JobSteps`."""

    failed: bool = False
    left_open: bool = False
    begun: bool = False
    failed_steps: int = 0
    failed_step: str = ""


class WorkflowJob(msgspec.Struct, frozen=True, omit_defaults=True):
    """A job; the runner's fields are None until a runner has taken it.

    `deploys` is true if the delivery comes with a deployment. `steps` are not stored: `parse` reduces those of a job
    that ended badly to `step_facts`. Other jobs' steps are not decoded, which would take as long as the rest of the
    delivery together. `sent_at` is when GitHub made the delivery (epoch seconds); see `dated`.
    """

    id: Id
    status: Text
    labels: Annotated[tuple[Name, ...], msgspec.Meta(max_length=MOST_LABELS)] = ()
    conclusion: Text | None = None
    runner_id: Count | None = None
    runner_name: Text | None = None
    runner_group_name: Text | None = None
    created_at: Moment | None = None
    started_at: Moment | None = None
    completed_at: Moment | None = None
    run_id: Count | None = None
    run_attempt: Count | None = None
    workflow_name: Text | None = None
    name: Text | None = None
    head_sha: Text | None = None
    head_branch: Text | None = None
    html_url: Text | None = None
    deploys: bool = False
    steps: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    step_facts: DeliveredSteps | None = None
    sent_at: float | None = None


class PullRequest(msgspec.Struct, frozen=True, omit_defaults=True):
    """A pull request whose head is a commit."""

    number: Count


class CheckRun(msgspec.Struct, frozen=True, omit_defaults=True):
    """A check run of this App."""

    id: Id
    name: Text = ""
    external_id: Text | None = None
    head_sha: Text = ""
    pull_requests: tuple[PullRequest, ...] = ()


class CheckSuite(msgspec.Struct, frozen=True, omit_defaults=True):
    """A check suite for this App: a commit that became a branch's head when the suite was created."""

    head_branch: Text | None = None
    head_sha: Text = ""
    created_at: Moment | None = None
    pull_requests: tuple[PullRequest, ...] = ()


class RequestedAction(msgspec.Struct, frozen=True, omit_defaults=True):
    """A button of a check run that a user pressed."""

    identifier: Text


class OddPart(msgspec.Struct, frozen=True, omit_defaults=True):
    """What was left out of a delivery: the path to it, and why; see `LeftOut`."""

    field: str
    why: str


class Delivery(msgspec.Struct, frozen=True, omit_defaults=True):
    """One delivery. Fields that its event lacks are None; `odd` is what was left out of it."""

    action: Text | None = None
    installation: DeliveredInstallation | None = None
    organization: Account | None = None
    repository: Repository | None = None
    workflow_job: WorkflowJob | None = None
    check_run: CheckRun | None = None
    check_suite: CheckSuite | None = None
    requested_action: RequestedAction | None = None
    deployment: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    sender: Account | None = None
    odd: tuple[OddPart, ...] = ()

    @property
    def left_out(self) -> list[LeftOut]:
        """What was left out, as for any other row."""
        return [LeftOut("delivery", each.field, each.why) for each in self.odd]


class Unread(msgspec.Struct, frozen=True):
    """Any JSON object, for events that this App does not use."""


KNOWN = {"workflow_job", "installation", "installation_repositories", "check_run", "check_suite", "ping"}

_delivery = RowDecoder[Delivery]("delivery", Delivery)
_steps: msgspec.json.Decoder[Sequence[DeliveredStep] | None] = msgspec.json.Decoder(tuple[DeliveredStep, ...] | None)
_unread = msgspec.json.Decoder(Unread)
_encoder = msgspec.json.Encoder()


def verify(body: bytes, signature: str | None, secrets: Sequence[str]) -> bool:
    """True if the raw body was signed (`X-Hub-Signature-256`) with one of the secrets; takes constant time."""
    if signature is None or not signature.startswith(SIGNATURE_PREFIX):
        return False
    given = signature.removeprefix(SIGNATURE_PREFIX).encode("latin-1", "replace")
    matches = [
        hmac.compare_digest(hmac.digest(secret.encode(), body, "sha256").hex().encode(), given) for secret in secrets
    ]
    return any(matches)


def parse(event: str, body: bytes, content_type: str) -> Delivery:
    """Parses a delivery.

    Args:
        event: `X-GitHub-Event`.
        body: the raw body.
        content_type: JSON, or a form with a field `payload`.

    Raises:
        MalformedDeliveryError: not a JSON object.
    """
    text = _form_payload(body) if content_type.lower().startswith(FORM) else body
    try:
        if event not in KNOWN:
            decode_json(_unread, text)
            return Delivery()
        delivery, left_out = _delivery.decode(text)
    except msgspec.DecodeError as error:
        raise MalformedDeliveryError(f"the {event} payload cannot be read: {error}") from None
    odd = [OddPart(each.field, each.why) for each in left_out]
    if event == "workflow_job" and not odd and (delivery.workflow_job is None or delivery.installation is None):
        odd = [OddPart("", "the payload lacks workflow_job or installation")]
    return _without_deployment(_without_steps(msgspec.structs.replace(delivery, odd=tuple(odd[:MOST_ODD]))))


def _without_steps(delivery: Delivery) -> Delivery:
    """Returns the delivery with its job's steps reduced to what is needed of them: a job may have hundreds."""
    job = delivery.workflow_job
    if job is None or job.steps is msgspec.UNSET:
        return delivery
    facts, odd = None, delivery.odd
    if job.status == "completed" and job.conclusion in UNFINISHED:
        try:
            steps = _decode_steps(job.steps)
        except msgspec.DecodeError as error:  # read as a whole: a step that cannot be read may have failed
            steps, odd = None, (*odd, OddPart("workflow_job.steps", str(error)))
        facts = None if steps is None else DeliveredSteps(*job_steps(step.state for step in steps))
    without = msgspec.structs.replace(job, steps=msgspec.UNSET, step_facts=facts)
    return msgspec.structs.replace(delivery, workflow_job=without, odd=odd)


def _decode_steps(encoded: msgspec.Raw) -> Sequence[DeliveredStep] | None:
    if len(bytes(encoded)) > LARGEST_STEPS_BYTES:
        raise msgspec.DecodeError(f"the steps have more than {LARGEST_STEPS_BYTES:,} bytes")
    return decode_json(_steps, encoded)


def _without_deployment(delivery: Delivery) -> Delivery:
    """Returns the delivery without the deployment of its job, which has kilobytes; the job keeps that there is one."""
    if delivery.deployment is msgspec.UNSET:
        return delivery
    job = delivery.workflow_job
    if job is not None and bytes(delivery.deployment) != b"null":
        job = msgspec.structs.replace(job, deploys=True)
    return msgspec.structs.replace(delivery, workflow_job=job, deployment=msgspec.UNSET)


_UUID_EPOCH_TICKS, _TICKS_A_SECOND = 0x01B21DD213814000, 1e7
"""Of a UUID of version 1: 100 ns since 1582."""


def dated(job: WorkflowJob, guid: str) -> WorkflowJob:
    """Returns a job with the time at which GitHub made its delivery, by the delivery's GUID; None if that has no date.

    GitHub's GUIDs are UUIDs of version 1, as in its documentation and in runs-on/runs-on #539, where the date is that
    of the event; it documents no such promise. A redelivery has the GUID of the first attempt.
    """
    try:
        known = uuid.UUID(guid)
    except ValueError:
        return msgspec.structs.replace(job, sent_at=None)
    at = (known.time - _UUID_EPOCH_TICKS) / _TICKS_A_SECOND if known.version == 1 else None
    return msgspec.structs.replace(job, sent_at=at)


def encode(delivery: Delivery) -> bytes:
    """Encodes a delivery for storage."""
    return _encoder.encode(delivery)


def decode(facts: bytes) -> Delivery:
    """Decodes a stored delivery that this version, the previous or the next one encoded.

    Unknown fields are ignored. An optional field whose form this version does not know is left out.

    Raises:
        msgspec.DecodeError: not a delivery, or an object in it lacks a mandatory field: `parse` keeps no such object,
            so another version wrote it, which may read it.
    """
    delivery, left_out = _delivery.decode(facts)
    for each in left_out:
        name, _, inner = each.field.partition(".")
        if inner and getattr(delivery, name) is None:
            raise msgspec.ValidationError(f"{each.why} - at `{each.field}`")
    odd = (*delivery.odd, *(OddPart(each.field, each.why) for each in left_out))
    return msgspec.structs.replace(delivery, odd=odd) if left_out else delivery


def _form_payload(body: bytes) -> bytes:
    try:
        fields = parse_qs(body.decode("ascii"), strict_parsing=True, max_num_fields=10)
    except (UnicodeDecodeError, ValueError) as error:
        raise MalformedDeliveryError(f"the form cannot be read: {error}") from None
    if "payload" not in fields:
        raise MalformedDeliveryError("the form has no field payload")
    return fields["payload"][0].encode()
