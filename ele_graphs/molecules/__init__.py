"""Molecules: objects, space, SMILES as inputs, reading and caching them, and the one door to RDKit."""
