"""State that survives the end of a crawl, however it ends."""
