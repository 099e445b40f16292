"""The loops that keep controllers running: informers, work queues, back-off. Knows no NodePool."""
