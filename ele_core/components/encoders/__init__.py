"""Networks on relaxed structures."""
