"""A read-only web page that shows a cluster and what its nodes wait for. It imports nothing that acts."""
