"""Pages: read, judged, and what becomes of each."""
