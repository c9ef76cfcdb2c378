"""Sequences of tokens as an output space: the small plugin that shows how plugins are written."""
