"""What work is carried out in: seed, device, processes, checkpoints, signals, callbacks."""
