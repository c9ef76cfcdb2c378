"""Pairs of inputs and outputs: read, checked, split, packed and drawn in batches."""
