"""A model: build its components, train, evaluate and use them to predict, and save them as files."""
