"""The cost floor: the least that any set of nodes could cost for the pods of a cluster."""
