"""Sequences of tokens as an output space: a small plugin that shows how plugins are written."""
