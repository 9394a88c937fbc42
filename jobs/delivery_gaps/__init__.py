"""Whether deliveries are complete: read from GitHub's delivery log, and from when they arrive.

While some are missing or late, a runner that may have left after its job is not confirmed as lost.
"""
