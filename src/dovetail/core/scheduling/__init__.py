"""The solver: where would these pods run, and can this node be removed? See `docs/concepts/solver.md`."""
