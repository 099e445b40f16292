"""Telemetry: events, log lines, metrics, the ledger of decisions, and HTTP probes."""
