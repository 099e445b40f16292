"""Tables of objects that the API server accepts or refuses, one module for each group of kinds."""
