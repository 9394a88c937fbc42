"""Lost runners are replaced: how many at a time, in which order, and what happens next to each. Pure.

`decision` plans one installation: it counts losses (`fuse_counts`), moves the fuses (`fuse`, `fuse_moves`) and grants
replacements (`plan`). `churn` and `successors` show whether a batch helped. `steps` say what is done next for a grant,
after another look; `status` puts that into the words that all surfaces show.
"""
