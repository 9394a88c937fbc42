"""The cluster's side of a runner: its pod and its ARC object, and what may be deleted there. Pure.

`pod` is a pod as the API server shows it; `deletion_guards` and `blockers` decide whether a lost runner's pod or object
may be deleted, and name what prevents it. `reconcile`, `phantoms` and `phantom_kinds` find what the cluster counts as
runners although nothing runs there; `never_started` explains pods whose runner never began.
"""
