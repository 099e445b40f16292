"""Deterministic fault injection: a seed generates a small cluster with user actions and faults, checked by invariants.

The real controllers run on `World` in virtual time. `fault_generator` draws a `Trial` from a seed: the initial objects,
the user actions and the faults. `runner` runs the trial, `invariants` check it from outside, and `runner.shrink`
searches for a smaller trial that violates the same invariant. Equal trials produce equal event logs.
"""
