"""Visible text → normalised words: NumPy has nothing to add, so this is the definition."""
