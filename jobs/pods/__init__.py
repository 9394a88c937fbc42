"""What the watch does: keeps a snapshot of pods and ARC objects for each namespace, and records how pods end.

`watch` leads; `pod_cache` and `ephemeralrunner_cache` keep the objects of one namespace (`namespace_cache`, with the
order of `ordered_tasks`), and `scale_sets` reads what ARC wants. From the snapshots workers read what remains of
missing runners (`remains`), phantoms, and the summary of the cluster (`cluster_summary`).
"""
