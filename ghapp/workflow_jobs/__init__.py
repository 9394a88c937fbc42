"""Workflow jobs, and why a queued one waits: one reason for each job, and what to do about it. Pure.

`job` is a job as deliveries report it, `job_scopes` where it belongs, `job_steps` how far it came, `demand` what the
jobs of an installation need. `job_queue` joins jobs and the runners that could take them (`capacity`), by `labels`
and `runner_groups`; `reason` finds why a job waits, `explanation` puts it into words, and `queue_check` decides when
the check run "Runner queue" is posted.
"""
