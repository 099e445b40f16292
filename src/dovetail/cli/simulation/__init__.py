"""Lives through scenarios, once or many times, and tells what came of it."""
