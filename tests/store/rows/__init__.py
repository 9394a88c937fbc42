"""Rows of each released format, as each release wrote them to Redis; tests check that the current code reads all of them.

Each JSON file here is one release: every key that its stores wrote, with its bytes in hex, and the records that were
written, as builtins. To add the next release, check out its commit and run

    python -m tests.store.rows NAME > tests/store/rows/NAME.json

there, and commit the file. `samples.py` writes the records: a new kind of record needs a line in `write` and one in
`read`; a test fails while a codec has none. Files of releases that no installation may still run are deleted: versions
are readable one release back and forth. Until 0.2.0 is released its file is written again when the format changes.
"""
