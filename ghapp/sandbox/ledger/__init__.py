"""What the sandbox saw its client do, to be asserted on."""
