"""GitHub's webhooks as values: who signed them, and the few facts in them that this App uses. No I/O.

A payload of some ten kilobytes becomes a `Delivery` of a few hundred bytes; the payload itself is never kept.
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from datetime import datetime
from typing import Any, get_args
from urllib.parse import parse_qs

import msgspec

from ghapp.errors import MalformedDeliveryError

FORM = "application/x-www-form-urlencoded"
SIGNATURE_PREFIX = "sha256="
HOSTED_GROUP = "GitHub Actions"
"""The runner group of GitHub's own machines: none of our business."""


class Account(msgspec.Struct, frozen=True, omit_defaults=True):
    """Whoever owns an installation."""

    login: str
    id: int = 0


class DeliveredInstallation(msgspec.Struct, frozen=True, omit_defaults=True):
    """The installation that a delivery is for; all but `id` only in `installation` events."""

    id: int
    account: Account | None = None
    suspended_at: str | None = None
    permissions: dict[str, str] = {}


class Repository(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where it happened."""

    full_name: str
    default_branch: str = ""


class WorkflowJob(msgspec.Struct, frozen=True, omit_defaults=True):
    """A job; the runner's fields are None until one has taken it."""

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


class CheckRun(msgspec.Struct, frozen=True, omit_defaults=True):
    """A check run of this App's."""

    id: int
    name: str = ""
    external_id: str | None = None


class CheckSuite(msgspec.Struct, frozen=True, omit_defaults=True):
    """What this App is to check: a commit that became a branch's head, when the suite was created."""

    head_branch: str | None = None
    head_sha: str = ""
    created_at: datetime | None = None


class RequestedAction(msgspec.Struct, frozen=True, omit_defaults=True):
    """A button that somebody pressed."""

    identifier: str


class Delivery(msgspec.Struct, frozen=True, omit_defaults=True):
    """One webhook. Whatever an event does not have is None."""

    action: str | None = None
    installation: DeliveredInstallation | None = None
    organization: Account | None = None
    repository: Repository | None = None
    workflow_job: WorkflowJob | None = None
    check_run: CheckRun | None = None
    check_suite: CheckSuite | None = None
    requested_action: RequestedAction | None = None
    sender: Account | None = None


class Unread(msgspec.Struct, frozen=True):
    """An event that this App does not use: any JSON object."""


KNOWN = {"workflow_job", "installation", "installation_repositories", "check_run", "check_suite", "ping"}

_delivery = msgspec.json.Decoder(Delivery)
_unread = msgspec.json.Decoder(Unread)
_encoder = msgspec.json.Encoder()


def verify(body: bytes, signature: str | None, secrets: Sequence[str]) -> bool:
    """Whether the raw body was signed (`X-Hub-Signature-256`) with one of the secrets, in constant time."""
    if signature is None or not signature.startswith(SIGNATURE_PREFIX):
        return False
    given = signature.removeprefix(SIGNATURE_PREFIX).encode("latin-1", "replace")
    matches = [
        hmac.compare_digest(hmac.digest(secret.encode(), body, "sha256").hex().encode(), given) for secret in secrets
    ]
    return any(matches)


def parse(event: str, body: bytes, content_type: str) -> Delivery:
    """The facts of a delivery.

    Args:
        event: `X-GitHub-Event`.
        body: as it was signed.
        content_type: JSON, or a form with a field `payload`.

    Raises:
        MalformedDeliveryError: no JSON object, or a known event without what it always has.
    """
    text = _form_payload(body) if content_type.lower().startswith(FORM) else body
    try:
        if event not in KNOWN:
            _unread.decode(text)
            return Delivery()
        delivery = _delivery.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise MalformedDeliveryError(f"the {event} payload cannot be read: {error}") from None
    except RecursionError:
        raise MalformedDeliveryError(f"the {event} payload is nested too deeply") from None
    if event == "workflow_job" and (delivery.workflow_job is None or delivery.installation is None):
        raise MalformedDeliveryError("a workflow_job payload has workflow_job and installation")
    return delivery


def encode(delivery: Delivery) -> bytes:
    """A delivery, to be kept."""
    return _encoder.encode(delivery)


def decode(facts: bytes) -> Delivery:
    """A kept delivery, written by this version, the one before or the one after.

    Unknown fields are ignored. A field that is there in a form that this version does not know counts as absent, if a
    delivery may lack it.

    Raises:
        msgspec.DecodeError: it is no delivery, or an object in it lacks what such an object always has.
    """
    try:
        return _delivery.decode(facts)
    except msgspec.ValidationError:
        return msgspec.convert(_known(Delivery, msgspec.json.decode(facts)), Delivery)


def _known(shape: type[msgspec.Struct], value: Any) -> Any:
    """Those fields of an untyped value that have a form that `shape` knows, and those that it requires."""
    if not isinstance(value, dict):
        return value
    kept = {}
    for field in msgspec.structs.fields(shape):
        if field.encode_name not in value:
            continue
        found = value[field.encode_name]
        nested = [each for each in get_args(field.type) if isinstance(each, type) and issubclass(each, msgspec.Struct)]
        if nested and isinstance(found, dict):  # whatever it lacks: it must not vanish without a word
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
