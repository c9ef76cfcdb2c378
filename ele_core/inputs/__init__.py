"""Inputs that are texts or vectors, and the backbones that read them."""
