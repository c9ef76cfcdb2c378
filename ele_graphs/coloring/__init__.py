"""`coloring`: from a picture of coloured cells to the graph of the cells that share a border."""
