"""What the controllers need from outside, as protocols: cluster, cloud, clock, telemetry, and the errors they raise."""
