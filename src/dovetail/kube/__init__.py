"""The adapter to a real Kubernetes API server: how to reach it, and the `Cluster` port spoken over HTTP."""
