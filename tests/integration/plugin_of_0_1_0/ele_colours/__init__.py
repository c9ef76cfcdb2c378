"""Rows of coloured slots, as an output space of ELE."""
