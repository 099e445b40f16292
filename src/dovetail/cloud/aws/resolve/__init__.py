"""What the selector terms of an EC2NodeClass stand for now: subnets, security groups, images, reservations, profile."""
