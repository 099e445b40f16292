"""From NodeClaim to node and back: pure rules for launch, registration, initialisation, liveness and drain."""
