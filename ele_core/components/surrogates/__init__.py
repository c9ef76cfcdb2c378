"""Stage 1: losses on outputs, as embeddings."""
