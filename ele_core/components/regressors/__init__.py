"""Stage 2: from inputs to queries in the embedding of outputs."""
