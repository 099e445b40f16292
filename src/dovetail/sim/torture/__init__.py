"""Deterministic fault injection: from one number, a cluster with trouble in it, and the invariants it must keep.

The real controllers live on `World` on virtual time. A story drawn from a seed says what the cluster is, what people do
to it and what fails; `trial` lives through it; `invariants` watch from outside; `shrinking` finds the shortest story
that still breaks the same invariant. Acts on nothing but the world it made.
"""
