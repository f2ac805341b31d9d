"""An ordinary Scrapy project that crawls a site of its own, or any other, with scrapy_neardup."""
