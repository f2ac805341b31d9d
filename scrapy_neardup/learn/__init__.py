"""Rules for URLs, learnt from what a crawl's pages say. Pure: no Scrapy, no files, no clock."""
