"""What the commands print: each module has the document for scripts and the text for a terminal."""
