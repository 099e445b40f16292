"""The kwok provider: simulated instances as Node objects, run by KWOK or the simulator, as in Karpenter's kwok."""
