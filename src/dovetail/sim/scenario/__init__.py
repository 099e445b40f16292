"""Stories in files: what a cluster starts with, what runs on it and what happens to it, and what came of it."""
