"""Runs scenarios on virtual time, once or in many variants, and reports the results."""
