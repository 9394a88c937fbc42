"""The reaper of stamped pods: reads them, asks GitHub about the few candidates, deletes the leaks.

`reap` is one tick: it reads (`snapshot`), has the rules of `ghapp.leaks.guards` decide which pods are kept, asks
GitHub (`github_status`) and decides again. `delete` checks each pod once more.
"""
