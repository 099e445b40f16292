"""Dovetail: a Kubernetes node lifecycle manager whose decisions come from a pure planner."""
