"""Launches an EC2 instance for a NodeClaim: launch options, launch templates, user data and the CreateFleet request."""
