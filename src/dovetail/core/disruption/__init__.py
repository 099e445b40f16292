"""Which nodes to disrupt, in which order, and why not the others."""
