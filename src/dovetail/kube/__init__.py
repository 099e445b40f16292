"""The client of a real Kubernetes API server: kubeconfig, credentials, and the `Cluster` port over HTTP."""
