"""The only place that constructs adapters and hands them to controllers: on a real cluster or on the embedded world."""
