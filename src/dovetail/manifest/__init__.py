"""YAML and JSON to model values and back, with every fault of a document at once. No network here."""
