"""Input spaces: how texts and vectors are read and become tensors."""
