"""The plan, and what it grants: lock, look again by id and by name, remove, request the replacement, record.

`plan_remediation` reads (`plan_inputs`), has `ghapp.remediation.decision` decide, with `family` for scopes that share
a fuse, and enqueues `remediate` for each grant. That takes the `steps` which all replacements share, `look_again`
first. Where ghapp deletes the runner's pod or object itself, `cluster_replacement` goes on, by `preconditions` and
`progress`; `job_lookup` asks for a job whose delivery was lost.

Each step is recorded before the next, so that a worker may be killed between any two of them:

- Its lock ends with its lease, and the next plan enqueues every grant that is unfinished (`awaits_remediation`).
- The next attempt asks GitHub for the runner and its name again. A removal that is on record is not repeated; one that
  was not recorded is: GitHub answers that DELETE with 404, which counts as removed.
- The id of the request follows from the loss (`request_id`). Its event is appended once under that id, and a controller
  that gets it twice sees the same id.
"""
