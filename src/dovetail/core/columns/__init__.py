"""Column generation: the cheapest nodes for classes of pods."""
