"""Molecules: objects, space, SMILES as inputs, reading and caching them, and the only module that imports RDKit."""
