"""Explanations of nodes, pods and NodePools: what keeps them as they are, and when that ends."""
