"""Many runs: sweeps over candidates, searches for options, and the tables and figures of a paper."""
