"""Infrastructure of the controllers: informers, work queues, backoff, leader election. Knows no NodePool."""
