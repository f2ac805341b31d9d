"""What the crawl learns about URLs, and what it skips for that."""
