"""A trained model of ELE, as data: `StructuredPredictor.load("fp2mol")`."""
