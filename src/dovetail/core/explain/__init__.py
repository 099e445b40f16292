"""Why a node, pod or NodePool is where it is, and what has to happen before it changes."""
