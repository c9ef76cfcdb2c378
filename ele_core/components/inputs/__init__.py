"""Input spaces: how texts and vectors are read and packed into tensors."""
