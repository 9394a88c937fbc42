"""Versions of the runner application: which ones run, and until when GitHub gives them jobs.

GitHub gives jobs only to runners that are at most some 30 days behind the newest release, and registers no runner
older than 2.329.0. A runner that is too old looks healthy: it is registered, online and idle, and waits forever; an
ephemeral one ends without a job and is started again. `lifetime` has the rules, `advice` what to do, `counts` how
many there are.
"""
