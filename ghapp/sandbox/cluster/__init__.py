"""A simulated Kubernetes API server, for tests and for trying; it knows nothing of ghapp.

It stands in for a kube-apiserver (1.34) with ARC's CRDs, strict where that is: versions, preconditions, selectors,
pages, watches, finalizers, graceful deletion, the status subresource, RBAC, and the words of each refusal.

Worth knowing of the real one, and so here: a pod's `deletionTimestamp` is when its grace ends, and so may lie ahead; a
pod that goes at once is seen marked first; what is written as it is makes no version; an object whose last finalizer
goes is shown by its DELETED event as it was before that; items in a list of a built-in kind have no `kind`; flow
control answers 429 in plain text; a path that leads nowhere, as of a CRD that is not installed, is answered a `Status`
by recent ones and plain text by older ones (`control.answers_plain_not_found`).

Where it knowingly differs:

- Plain HTTP, and bearer tokens only. JSON only: no YAML, no protobuf, no tables. No `/watch/` paths.
- No strategic merge patch and no server-side apply (415), also for pods; no `managedFields`.
- CRDs have no schema here: nothing is pruned, defaulted or checked beyond the metadata.
- Of a pod's spec only the presence of containers is checked; nothing is defaulted. No scheduler, no controllers: pods
  and runners are what levers make of them. No eviction, binding, exec, attach or port-forward; logs do not follow.
- The garbage collector and, when it is told to, the kubelet act in the same moment as the write that gave them work.
- Namespaces can be made and deleted like other objects; deleting one takes nothing with it.
- A list from a version that has not come yet is refused at once, and not after three seconds.
- A watch lasts half an hour when it doesn't say how long, and 20,000 changes of each kind are kept; time-outs and
  bookmarks of watches go by the wall's clock, everything else by the clock that is given.
- Names in `pods/log` of lost nodes, audit ids and such are of the right form and otherwise made up.
- ClusterRoles are not aggregated, and groups have no rules but those that everybody has.
"""

from ghapp.sandbox.cluster.calls import ClusterCall
from ghapp.sandbox.cluster.cluster import ADMIN
from ghapp.sandbox.cluster.control import ClusterControl
from ghapp.sandbox.cluster.faults import ClusterFault
from ghapp.sandbox.cluster.manifests import rules_of, users_of
from ghapp.sandbox.cluster.objects import Obj
from ghapp.sandbox.cluster.rbac import ANYTHING, RbacRule
from ghapp.sandbox.cluster.server import ClusterServer
from ghapp.sandbox.cluster.shapes import FINALIZER, REGISTRATION_FINALIZER, AssignedJob
from ghapp.sandbox.cluster.watch_cuts import Ending

__all__ = [
    "ADMIN",
    "ANYTHING",
    "FINALIZER",
    "REGISTRATION_FINALIZER",
    "AssignedJob",
    "ClusterCall",
    "ClusterControl",
    "ClusterFault",
    "ClusterServer",
    "Ending",
    "Obj",
    "RbacRule",
    "rules_of",
    "users_of",
]
