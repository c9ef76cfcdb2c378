"""A training in a folder: started, resumed, evaluated, recorded."""
