"""What AWS tells of its instances ahead of time: by a queue, and when asked for their status."""
