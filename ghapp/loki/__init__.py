"""A client of Grafana Loki, which supplies the log lines around a death. Without `GHAPP_LOKI_URL` nothing is asked."""
