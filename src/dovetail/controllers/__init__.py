"""The controllers: each observes the cluster, lets `core` decide, acts through `ports`, and reports."""
