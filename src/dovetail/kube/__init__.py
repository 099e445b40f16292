"""The adapter to a real Kubernetes API server."""
