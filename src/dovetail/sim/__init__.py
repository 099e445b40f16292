"""The embedded world: an in-memory cluster on virtual time.

`World` implements the `Cluster` port and keeps the semantics of a real API server; the contract suite holds it to them.
Around the API live the controllers every cluster has: kubelets, a scheduler, workloads, garbage collection. `loop`
makes time jump from one event to the next, and all chance comes from one seed.
"""
