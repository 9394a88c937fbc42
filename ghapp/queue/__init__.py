"""The job queue: how jobs move between RQ's keys."""
