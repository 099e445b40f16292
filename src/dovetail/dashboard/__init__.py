"""A page that shows a cluster and what it waits for. It only reads, and imports nothing that acts."""
