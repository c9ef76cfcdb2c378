"""Experiments of many runs: sweeps over candidates, searches for options, tables and figures of a paper."""
