"""The training loop of all neural stages, and the weights it keeps."""
