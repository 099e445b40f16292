"""Simulated instances: Nodes that KWOK, or the embedded world, brings to life. Compatible with Karpenter's kwok."""
