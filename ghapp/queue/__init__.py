"""The job queue on RQ: names of jobs, enqueueing, transitions, recovery of lost jobs, and the worker class."""
