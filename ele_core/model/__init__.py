"""A model: its parts put together, trained, evaluated, used to predict, and kept as files."""
