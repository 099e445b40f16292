"""Cloud providers: implementations of the cloud port."""
