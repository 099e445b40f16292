"""Verdicts rendered: events, log lines."""
