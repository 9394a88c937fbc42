"""The operations of the HTTP API that belong to no single subject: overview, status, metrics, the doctor's findings."""
