"""What the API server refuses of the kinds it knows, as the contract suite found it on a real one."""
