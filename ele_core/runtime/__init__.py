"""The environment in which training and decoding run: seed, device, processes, checkpoints, signals, callbacks."""
