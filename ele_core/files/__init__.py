"""Files: atomic writes, locks, sealed archives, tables of rows and columns."""
