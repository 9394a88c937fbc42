"""Leaks: stamped pods, those with the owner label, that no runner uses and no controller claims. Pure.

`guards` decide at each tick of the reaper which pods are kept and which are deleted; each guard is numbered there,
and named in the report of what was kept. `runner_activity` and `github_queries` combine what is known of the runner
in a pod, `leak_fuse` proves a mass leak in batches that double, which `fuse_limit` applies, and `tick` has the inputs
and the memory between two ticks. `orphan` is the record of a deleted pod, `reaper_status` what people see of all
this.
"""
