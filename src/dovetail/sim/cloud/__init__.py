"""A simulated cloud whose instances exist independently of their Nodes."""
