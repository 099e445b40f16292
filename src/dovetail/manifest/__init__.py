"""Manifests: YAML and JSON to objects of the model and back, validation with all faults at once, and the CRDs."""
