"""Pending pods to NodeClaims to launch."""
