"""The solver: where would these pods run, and could this node go? `docs/concepts/solver.md` explains how it works."""
