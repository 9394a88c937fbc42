"""Redis: connections, codecs, compare-and-set, locks, and the records that belong to no single subject.

`keys` declares every key with its content, bounds, writers and readers. Records are changed by `compare_and_set` alone;
those that cannot be read are set aside by `quarantine`, and cost themselves alone. `stores` opens all stores once in
each process; those of a subject are in its folder.
"""
