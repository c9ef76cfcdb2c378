"""Stage 3: from queries to the structures of least energy."""
