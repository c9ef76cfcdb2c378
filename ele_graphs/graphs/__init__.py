"""Labelled graphs: batches, spaces, views, moves, keys and drawings."""
