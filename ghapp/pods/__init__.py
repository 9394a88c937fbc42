"""The cluster's side of a runner: its pod and its ARC object, and what may be deleted there. Pure.

`pod` is a pod as the API server shows it; `deletion_guards` and `blockers` decide whether a lost runner's pod or
object may be deleted, and name what prevents it: a controller's claim (`pod_claim`, kept by `claim_store`) or the job
that ARC's object names (`assigned_job`). `reconcile`, `phantoms` and `phantom_kinds` find what the cluster counts as
runners although nothing runs there, `scale_sets` the ones that create too many; `never_started` explains pods whose
runner never began. `observed_remains` is what the cluster shows of a missing runner, `degraded_sources` what of it
cannot be read, and `end_store` keeps the ends of pods until they are recorded as deaths.
"""
