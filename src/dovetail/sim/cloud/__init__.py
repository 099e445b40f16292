"""A simulated cloud: instances that exist apart from the Nodes they become."""
