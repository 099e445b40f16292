"""The model: immutable, validated values that decisions are made from. Nothing here does I/O or reads a clock."""
