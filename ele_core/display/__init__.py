"""How results look outside of a terminal: tables for notebooks, sheets of drawings."""
