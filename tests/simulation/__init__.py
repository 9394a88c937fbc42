"""The judgement in virtual time and by seed: a model world that lies, a day at a time.

In this order: `lies` (what GitHub may do, and where the model ends), `invariants` and `bound` (what must hold),
`driver` and `acting` (the jobs, step by step), `engine` (time, processes, crashes). A share of the days has a cluster:
`cluster` (the API server and its pods), `pod_life` (controllers, kubelets, incidents), `reaper` (the reaper, step by
step), `pod_audit` (what must hold of it). What decides is the real judgement of `ghapp`; `mutations` breaks its
rules in turn, and each is caught.

    make simulate                                   ten thousand days on all cores
    python -m tests.simulation 4711 --trace         one of them, with its story
    python -m tests.simulation --broken RULE        with a rule broken: the days that catch it
"""
