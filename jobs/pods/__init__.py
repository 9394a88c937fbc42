"""What the watch does: keeps a snapshot of pods and ARC objects for each namespace, and records how pods end.

From the snapshots follow what remains of missing runners, phantoms, and the summary of the cluster.
"""
