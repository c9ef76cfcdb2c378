"""The task SMILES → molecule on MOSES: drug-like molecules of up to 26 heavy atoms."""
