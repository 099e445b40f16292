"""The live terminal view of `dovetail demo`. It only reads."""
