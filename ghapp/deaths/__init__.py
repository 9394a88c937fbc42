"""How runners died: the cause, what it has in common with other deaths, and whether the job is run again. Pure.

`death` is the record, `cause` names each cause. `classify` finds it from a container's end and log (`runner_log`),
`job_death` from the job alone (`github_words`), `post_mortem` whether the job failed for it, `rerun` whether it is
run again. `job_outcome` is what a job failed by, `job_story` its whole story; `patterns` finds what the deaths of a
week have in common, and `cluster_summary` joins deaths and phantoms for the report. `post_mortem_store` keeps what
follows a death: its check run, its re-run and the summary.
"""
