"""Runs: start a training in a folder, resume it, evaluate it and record results."""
