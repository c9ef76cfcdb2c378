"""Display of results outside of a terminal: tables for notebooks, sheets of drawings."""
