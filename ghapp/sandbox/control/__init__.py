"""Controls of the sandbox beside GitHub's API: incidents, limits, faults, time, and the ledger."""
