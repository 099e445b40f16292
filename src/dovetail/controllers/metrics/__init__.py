"""Metrics of the controllers, with the names and labels of Karpenter where it has them."""
