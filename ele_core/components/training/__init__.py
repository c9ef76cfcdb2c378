"""The training loop of both neural stages, and the weights it keeps."""
