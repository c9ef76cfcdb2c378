"""Networks on inputs."""
