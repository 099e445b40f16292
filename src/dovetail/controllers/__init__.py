"""Thin loops: observe, decide (core), act (ports), report. One file each."""
