"""`next_version.py ROLE` is `ghapp ROLE` of the next version: it appends fields to every record that it writes."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[3]))
    import_module("tests.store.rows.next_version").become()
    import_module("ghapp.cli.main").main()
