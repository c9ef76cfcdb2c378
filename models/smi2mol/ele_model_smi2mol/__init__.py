"""A trained model of ELE, as data: `StructuredPredictor.load("smi2mol")`."""
