"""How runners died: the cause, what it has in common with other deaths, and whether the job is run again. Pure.

`death` is the record. `classify` finds the cause from a container's end and log, `job_death` from the job alone,
`post_mortem` whether the job failed for it, `rerun` whether it is run again. `job_story` is a job's whole story;
`cluster_summary` joins deaths and phantoms for the report.
"""
