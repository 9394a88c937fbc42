"""What workers, the scheduler and the watch run, one package or module a subject.

A job opens a context (`context`), reads what it needs, asks the pure rules of `ghapp` for a decision, and records
each step before the next, so that a job that dies amid its work is repeated without a second effect. A module here
often has the name of the rules that it asks: `jobs.deaths.rerun` carries out what `ghapp.deaths.rerun` decides.

`worker` registers the functions of all jobs, `scheduler` enqueues them when they are due (`periodic_task`), and
`each_installation` runs one for many installations. `delivery_gaps`, `shared_machines` and `failed_calls` are what
jobs of several subjects share; `active_shard` and `notifications` are jobs of their own.
"""
