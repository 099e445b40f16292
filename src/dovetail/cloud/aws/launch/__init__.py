"""How a NodeClaim becomes an EC2 instance: what to ask for, from which launch template, and what the answer means."""
