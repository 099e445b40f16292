"""Provisioning: which pending pods need nodes, and the NodeClaims to launch for them."""
