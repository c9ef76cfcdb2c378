"""The task `g2p`: from the spelling of a word to its phonemes, with its components."""
