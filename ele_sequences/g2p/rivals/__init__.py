"""Methods that `g2p` is compared with: Phonetisaurus, and a network that writes phoneme after phoneme."""
