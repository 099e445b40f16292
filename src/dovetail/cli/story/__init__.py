"""The story of `dovetail demo`: what happens to the cluster, and what is kept of it. Nothing here draws."""
