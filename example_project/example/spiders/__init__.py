"""The spiders that `scrapy list` shows."""
