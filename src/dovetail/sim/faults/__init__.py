"""Deterministic fault injection: from one number, a cluster with trouble in it, and the laws it must keep all the same.

The real controllers live on `World` on virtual time. A story drawn from a seed says what the cluster is, what people do
to it and what fails; `trial` lives through it; `laws` watch from outside; `shrinking` finds the shortest story that
still breaks the same law. Acts on nothing but the world it made.
"""
