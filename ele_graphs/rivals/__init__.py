"""Methods that ELE is compared with: graph kernels, and fused Gromov-Wasserstein distances."""
