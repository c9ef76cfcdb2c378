"""Trust in predictions: confidence, expected metrics, and sets that hold the truth as often as asked."""
