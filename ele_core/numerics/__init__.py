"""Pure functions on tensors: batches, keys, projections, convex sets, sparse features."""
