"""The task fingerprint → molecule: the molecule whose Morgan fingerprint is given."""
