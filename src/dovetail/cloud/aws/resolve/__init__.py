"""Resolves the selectors of an EC2NodeClass to subnets, security groups, AMIs, reservations and instance profiles."""
