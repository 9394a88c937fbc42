"""Chaos test: 500 runners work while GitHub, the network and processes fail, in an order that a seed determines.

The roles are real processes, Redis is real, GitHub is the sandbox. `faults` lists the faults, `schedule` their times,
`installation` is the system under test, `soak` runs the faults and then waits for recovery, `accounting` checks it.

    make chaos                                  five minutes, some seed
    SECONDS=60 SEED=1 make chaos                a minute of that one
    python -m tests.chaos --seed 1 --seconds 60 --json

The seed determines the faults, their times and durations. The runners affected depend on the state of the fleet at
that time, which follows the wall clock.

Left out, because no implementation could survive it or nothing would be left to count:

- `unlist(everywhere=True)` for longer than `confirm_seconds`: the list and a GET both deny a live runner, twice. That
  is all the evidence there is.
- A registration that comes back later than `confirm_seconds` after it vanished: its runner is being removed by then.
- `uninstall`: the App comes back under another id, and a new installation knows nothing of what the old one lost.
- `lose_deliveries(logged=True)`: GitHub's log shows them as delivered. No log shows which were lost.
- A runner that is lost before any list has shown it, because it is unknown. Only known runners are lost.
"""
