"""Metrics of the controllers, in the names and labels of Karpenter."""
