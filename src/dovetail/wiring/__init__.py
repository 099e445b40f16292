"""Constructs the adapters and the controllers, for a real cluster or for the embedded world. No other package does."""
