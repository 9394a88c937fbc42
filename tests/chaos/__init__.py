"""A soak: five hundred runners live their lives while everything around them fails, in an order that a seed decides.

The roles are real processes, Redis is real, GitHub is the sandbox. `faults` is what can go wrong, `schedule` says when,
`house` is what it befalls, `soak` lets it happen and then lets it calm down, `account` says what came of it.

    make chaos                                  five minutes, some seed
    SECONDS=60 SEED=1 make chaos                a minute of that one
    python -m tests.chaos --seed 1 --seconds 60 --json

The seed decides which faults come when and how long they last; which runners they meet depends on the life they lead
by then, which runs by the wall's clock.

Left out, since nobody could withstand it, or because there would be nothing left to count:

- `unlist(everywhere=True)` for longer than `confirm_seconds`: the list and a GET both deny a live runner, twice. That
  is all the proof there is.
- A registration that comes back later than `confirm_seconds` after it vanished: its runner is on its way out by then.
- `uninstall`: the App comes back under another id, and a new installation knows nothing of what the old one lost.
- `lose_deliveries(logged=True)`: GitHub's record says that they came. No record shows which did not.
- A runner that is lost before any list has shown it: nobody has ever heard of it. Only runners that are known are lost.
"""
