"""Frozen values, parsed and valid: what the rest of Dovetail reasons about. Nothing here acts or reads a clock."""
