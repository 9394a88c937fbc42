"""`ghapp up`: all roles on one machine, with a Redis server of its own, and the sandbox where it is asked for.

`up` starts the roles as processes under a watchdog and stops them in order; `dashboard` is what its terminal shows, and
`scenarios` are the incidents of its keys.
"""
