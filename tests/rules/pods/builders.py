"""The pod and the object of runner 1 in the cluster. Each builder defaults to a state that a wrong rule would delete."""

from ghapp.pods.deletion_guards import REGISTRATION_FINALIZER, Preconditions
from ghapp.pods.pod import Container, EphemeralRunner, Owner, Pod
from tests.rules.builders import LONG_AGO, NOW

NAMESPACE = "runners"
GRACE = 120.0
ARCS_OTHER_FINALIZER = "ephemeralrunner.actions.github.com/finalizer"


def container(**changes) -> Container:
    """The agent's container, running for a day."""
    return Container(name="runner", running_since=LONG_AGO + 5)._replace(**changes)


def pod(**changes) -> Pod:
    """An unclaimed pod that has run for a day."""
    worst = Pod(
        namespace=NAMESPACE,
        name="linux-1",
        uid="pod-1",
        version="70",
        created_at=LONG_AGO,
        phase="Running",
        node="node-a",
        runner=container(),
        read_at=NOW,
    )
    return worst._replace(**changes)


def runner_object(**changes) -> EphemeralRunner:
    """ARC's object of the runner: a day old, without a job."""
    worst = EphemeralRunner(
        namespace=NAMESPACE,
        name="linux-1",
        uid="object-1",
        version="71",
        created_at=LONG_AGO,
        phase="Running",
        runner_id=1,
        runner_name="linux-1",
        finalizers=(ARCS_OTHER_FINALIZER, REGISTRATION_FINALIZER),
        scale_set="linux-4vcpu",
        org="acme",
        read_at=NOW,
    )
    return worst._replace(**changes)


def pod_of_object(**changes) -> Pod:
    """The pod of `pod`, owned by the object of `runner_object`."""
    return pod(owners=(Owner("EphemeralRunner", "linux-1", "object-1"),))._replace(**changes)


def preconditions(**changes) -> Preconditions:
    """Preconditions that block no deletion."""
    return Preconditions(now=NOW, grace_seconds=GRACE, org="acme")._replace(**changes)
