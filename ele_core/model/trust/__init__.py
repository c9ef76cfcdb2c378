"""How far predictions can be trusted: confidence, expected metrics, and sets that hold the truth as often as asked."""
