"""Items: which page each comes from, and what of it is data."""
