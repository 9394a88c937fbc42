"""Webhook deliveries as values: signature check, and the few fields that this App uses. No I/O.

A payload of some ten kilobytes becomes a `Delivery` of a few hundred bytes; the payload itself is never stored.
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from datetime import datetime
from typing import Any, get_args
from urllib.parse import parse_qs

import msgspec

from ghapp.decoding import decode as decode_json
from ghapp.errors import MalformedDeliveryError
from ghapp.health.job_steps import StepState, job_steps

FORM = "application/x-www-form-urlencoded"
SIGNATURE_PREFIX = "sha256="


class Account(msgspec.Struct, frozen=True, omit_defaults=True):
    """An organization or a user."""

    login: str
    id: int = 0


class DeliveredInstallation(msgspec.Struct, frozen=True, omit_defaults=True):
    """The installation of a delivery; fields other than `id` are only in `installation` events."""

    id: int
    account: Account | None = None
    suspended_at: str | None = None
    permissions: dict[str, str] = {}


class Repository(msgspec.Struct, frozen=True, omit_defaults=True):
    """The repository of an event."""

    full_name: str
    default_branch: str = ""
    private: bool | None = None


UNFINISHED = ("failure", "cancelled", "timed_out")
"""Conclusions of jobs that ended badly."""


class DeliveredStep(msgspec.Struct, frozen=True, omit_defaults=True):
    """A step of a job."""

    number: int = 0
    status: str = ""
    conclusion: str | None = None
    started_at: str | None = None
    name: str = ""

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


class WorkflowJob(msgspec.Struct, frozen=True, omit_defaults=True):
    """A job; the runner's fields are None until a runner has taken it.

    `deploys` is true if the delivery comes with a deployment. `steps` are not stored: `parse` reduces those of a job
    that ended badly to `step_facts`. Other jobs' steps are not decoded, which would take as long as the rest of the
    delivery together.
    """

    id: int
    status: str
    labels: tuple[str, ...] = ()
    conclusion: str | None = None
    runner_id: int | None = None
    runner_name: str | None = None
    runner_group_name: str | None = None
    created_at: datetime | None = None
    started_at: datetime | None = None
    completed_at: datetime | None = None
    run_id: int | None = None
    run_attempt: int | None = None
    workflow_name: str | None = None
    name: str | None = None
    head_sha: str | None = None
    html_url: str | None = None
    deploys: bool = False
    steps: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    step_facts: DeliveredSteps | None = None


class CheckRun(msgspec.Struct, frozen=True, omit_defaults=True):
    """A check run of this App."""

    id: int
    name: str = ""
    external_id: str | None = None


class CheckSuite(msgspec.Struct, frozen=True, omit_defaults=True):
    """A check suite for this App: a commit that became a branch's head when the suite was created."""

    head_branch: str | None = None
    head_sha: str = ""
    created_at: datetime | None = None


class RequestedAction(msgspec.Struct, frozen=True, omit_defaults=True):
    """A button of a check run that a user pressed."""

    identifier: str


class Delivery(msgspec.Struct, frozen=True, omit_defaults=True):
    """One delivery. Fields that its event lacks are None."""

    action: str | None = None
    installation: DeliveredInstallation | None = None
    organization: Account | None = None
    repository: Repository | None = None
    workflow_job: WorkflowJob | None = None
    check_run: CheckRun | None = None
    check_suite: CheckSuite | None = None
    requested_action: RequestedAction | None = None
    deployment: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    sender: Account | None = None


class Unread(msgspec.Struct, frozen=True):
    """Any JSON object, for events that this App does not use."""


KNOWN = {"workflow_job", "installation", "installation_repositories", "check_run", "check_suite", "ping"}

_delivery = msgspec.json.Decoder(Delivery)
_steps = msgspec.json.Decoder(tuple[DeliveredStep, ...] | None)
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
        MalformedDeliveryError: not a JSON object, or a known event without its mandatory fields.
    """
    text = _form_payload(body) if content_type.lower().startswith(FORM) else body
    try:
        if event not in KNOWN:
            decode_json(_unread, text)
            return Delivery()
        delivery = decode_json(_delivery, text)
    except msgspec.DecodeError as error:
        raise MalformedDeliveryError(f"the {event} payload cannot be read: {error}") from None
    if event == "workflow_job" and (delivery.workflow_job is None or delivery.installation is None):
        raise MalformedDeliveryError("the workflow_job payload lacks workflow_job or installation")
    try:
        return _without_deployment(_without_steps(delivery))
    except msgspec.DecodeError as error:
        raise MalformedDeliveryError(f"the steps of the job cannot be read: {error}") from None


def _without_steps(delivery: Delivery) -> Delivery:
    """Returns the delivery with its job's steps reduced to what is needed of them: a job may have hundreds."""
    job = delivery.workflow_job
    if job is None or job.steps is msgspec.UNSET:
        return delivery
    ended_badly = job.status == "completed" and job.conclusion in UNFINISHED
    steps = decode_json(_steps, job.steps) if ended_badly else None
    facts = None if steps is None else DeliveredSteps(*job_steps(step.state for step in steps))
    without = msgspec.structs.replace(job, steps=msgspec.UNSET, step_facts=facts)
    return msgspec.structs.replace(delivery, workflow_job=without)


def _without_deployment(delivery: Delivery) -> Delivery:
    """Returns the delivery without the deployment of its job, which has kilobytes; the job keeps that there is one."""
    if delivery.deployment is msgspec.UNSET:
        return delivery
    job = delivery.workflow_job
    if job is not None and bytes(delivery.deployment) != b"null":
        job = msgspec.structs.replace(job, deploys=True)
    return msgspec.structs.replace(delivery, workflow_job=job, deployment=msgspec.UNSET)


def encode(delivery: Delivery) -> bytes:
    """Encodes a delivery for storage."""
    return _encoder.encode(delivery)


def decode(facts: bytes) -> Delivery:
    """Decodes a stored delivery that this version, the previous or the next one encoded.

    Unknown fields are ignored. An optional field whose form this version does not know counts as absent.

    Raises:
        msgspec.DecodeError: not a delivery, or an object in it lacks a mandatory field.
    """
    try:
        return _delivery.decode(facts)
    except msgspec.ValidationError:
        return msgspec.convert(_known(Delivery, msgspec.json.decode(facts)), Delivery)


def _known(shape: type[msgspec.Struct], value: Any) -> Any:
    """Returns an untyped value without the optional fields that do not match `shape`."""
    if not isinstance(value, dict):
        return value
    kept = {}
    for field in msgspec.structs.fields(shape):
        if field.encode_name not in value:
            continue
        found = value[field.encode_name]
        nested = [each for each in get_args(field.type) if isinstance(each, type) and issubclass(each, msgspec.Struct)]
        if nested and isinstance(found, dict):  # kept even if incomplete, so that decoding fails visibly
            kept[field.encode_name] = _known(nested[0], found)
        elif field.required or _is_of(field.type, found):
            kept[field.encode_name] = found
    return kept


def _is_of(shape: Any, value: Any) -> bool:
    try:
        msgspec.convert(value, shape)
    except msgspec.ValidationError:
        return False
    return True


def _form_payload(body: bytes) -> bytes:
    try:
        fields = parse_qs(body.decode("ascii"), strict_parsing=True, max_num_fields=10)
    except (UnicodeDecodeError, ValueError) as error:
        raise MalformedDeliveryError(f"the form cannot be read: {error}") from None
    if "payload" not in fields:
        raise MalformedDeliveryError("the form has no field payload")
    return fields["payload"][0].encode()
