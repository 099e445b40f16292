"""What the controllers need from the world, and nothing more: protocols and the tree of ways the world can fail."""
