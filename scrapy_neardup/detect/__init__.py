"""Text → decision: words, fingerprints, candidates and what confirms them. Knows no Scrapy."""
