"""Lost runners are replaced: how many at a time, in which order, and what happens next to each. Pure.

`decision` plans one installation, `family` those that share a fuse: it counts losses (`fuse_counts`), has each fuse
change its position (`fuse`) or follow its runners into another pool (`fuse_moves`), and grants replacements (`plan`).
`churn` and `job_proof` show whether a batch helped; a `pause` holds all of it. `steps` say what is done next for a
grant, after another look; `status` puts that into the words that all surfaces show. `healing` names the successor of
each lost runner, for the surfaces alone: no fuse asks it.

`store` keeps fuses and pauses, `commands` are `ghapp pause` and `ghapp resume`; `api` is theirs, and that of a sweep.
"""
