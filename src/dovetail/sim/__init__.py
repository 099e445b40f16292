"""The embedded world: an in-memory cluster on virtual time."""
