"""Proposers: conditional distributions of structures."""
