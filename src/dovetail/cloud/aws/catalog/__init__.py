"""What EC2 sells: instance types, what of each is left for pods, where they are offered, and at what price."""
