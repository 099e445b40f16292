"""The simulator: a Kubernetes cluster and a cloud in memory, on virtual time, for the demo, simulations and tests."""
