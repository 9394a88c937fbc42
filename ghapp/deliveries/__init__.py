"""Webhook deliveries: received, stored in an inbox, and requested again where they failed.

`api` answers `POST /webhook`: it verifies the signature (`ghapp.github.deliveries.verify`) and stores the delivery.
`store` is the inbox; a delivery that repeats is marked there by its GUID and has no second effect
(`Inbox.without_effect`). `jobs.deliveries.inbox` gives each its effect. `log_store` has what is known of how complete
deliveries are, `redelivery` selects those that GitHub is asked to send again. Which ones are missing or late, and
what that means for a runner, is in `runners.delivery_lag`.
"""
