"""A crawl under way: the only folder besides Scrapy's components that imports Scrapy."""
