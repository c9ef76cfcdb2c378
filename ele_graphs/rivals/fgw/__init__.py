"""The rivals that use the fused Gromov-Wasserstein distance: its solver, barycenters, and components made of them."""
