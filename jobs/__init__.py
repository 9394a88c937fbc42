"""What workers, the scheduler and the watch run, one package or module a subject.

A job opens a context (`context`), reads what it needs, asks the pure rules of `ghapp` for a decision, and records each
step before the next, so that a job that dies amid its work is repeated without a second effect.
"""
