"""Indexes: the nearest of many vectors."""
