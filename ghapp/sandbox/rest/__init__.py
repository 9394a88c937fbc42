"""GitHub's REST API, as far as an App like ghapp calls it."""
