"""Files of pages: deduplicated, judged, and limits proposed from them."""
