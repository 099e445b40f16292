"""Manifests in and out: YAML and JSON to model values and back, every fault of a document at once, CRDs; no network."""
