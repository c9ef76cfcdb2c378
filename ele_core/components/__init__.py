"""The components that ship with the core, a folder for each kind, and what they are built of."""
