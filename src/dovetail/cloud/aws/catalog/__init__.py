"""The EC2 catalog of a region: instance types, their capacity for pods, their offerings and prices."""
