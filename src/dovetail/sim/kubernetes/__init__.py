"""A simulated Kubernetes cluster: the API server and the controllers that run beside it."""
