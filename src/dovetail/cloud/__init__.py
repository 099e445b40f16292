"""Providers of instances."""
