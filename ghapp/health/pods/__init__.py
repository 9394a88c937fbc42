"""The judgement of what the cluster shows: pods, what may be deleted, and what does not fit together. Pure."""
