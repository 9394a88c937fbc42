"""The rows of the API server's answers, validated one by one; what cannot be read is left out, counted and named."""
