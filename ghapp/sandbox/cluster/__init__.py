"""A simulated Kubernetes API server, for tests and for trying; it imports nothing of ghapp.

It simulates a kube-apiserver (1.34) with ARC's CRDs, strictly in: versions, preconditions, selectors, pages, watches,
finalizers, graceful deletion, the status subresource, RBAC, and the messages of refusals.

Properties of the real server that are simulated: a pod's `deletionTimestamp` is when its grace period ends, so it may
be in the future; a pod that is deleted at once is seen marked first; a write without a change makes no version; when an
object's last finalizer is removed, its DELETED event shows the object before that; items in a list of a built-in kind
have no `kind`; an unknown path, as of a CRD that is not installed, is answered
with a `Status` by recent servers and plain text by older ones (`SimulatedCluster.plain_not_found`).

Known differences:

- No PUT (405). Plain HTTP, and bearer tokens only, for kubectl in the path (`/as/TOKEN`). JSON only: no YAML, no
  protobuf, no tables. No `/watch/` paths.
- No strategic merge patch and no server-side apply (415), also for pods; no `managedFields`.
- CRDs have no schema here: nothing is pruned, defaulted or checked beyond the metadata.
- Of a pod's spec only the presence of containers is checked; nothing is defaulted. No scheduler, no controllers: pods
  and runners change only by controls. No eviction, binding, exec, attach or port-forward; logs do not follow.
- The garbage collector and, when configured, the kubelet act at the moment of the write that caused their work.
- Namespaces can be created and deleted like other objects; deleting one deletes nothing else.
- A list from a future version is refused at once, and not after three seconds.
- A watch lasts half an hour by default, and 20,000 changes of each kind are kept; time-outs and bookmarks of watches
  follow the wall clock, everything else the given clock.
- Names in `pods/log` of lost nodes, audit ids and the like have the right form and random content.
- ClusterRoles are not aggregated, and groups have no rules except those of every user.
"""
