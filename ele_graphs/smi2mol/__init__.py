"""The task SMILES → molecule on QM9: its data, the studies of the paper, and the demonstration."""
