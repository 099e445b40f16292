"""Pure functions: a Snapshot and an instant in, decisions out. Nothing here acts, waits, logs or reads a clock."""
