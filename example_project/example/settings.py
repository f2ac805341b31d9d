"""Settings of the example: the plugin needs the ADDONS line, everything else is ordinary."""

BOT_NAME = "example"
SPIDER_MODULES = ["example.spiders"]
EXTENSIONS = {"example.scorecard.Scorecard": 500}

ADDONS = {"scrapy_neardup.NearDupAddon": 500}
# The site has an endless calendar. Its empty months are near-duplicates of one another, so the
# crawl leaves it by itself; DEPTH_LIMIT would end it even with the plugin switched off.
NEARDUP_FOLLOW_DUPLICATES = False
DEPTH_LIMIT = 30

# By breadth: a page is met before the copies that stand deeper in the site.
DEPTH_PRIORITY = 1
SCHEDULER_MEMORY_QUEUE = "scrapy.squeues.FifoMemoryQueue"
SCHEDULER_DISK_QUEUE = "scrapy.squeues.PickleFifoDiskQueue"

# Manners towards other people's sites; the spider hurries only on the site it serves itself.
USER_AGENT = "scrapy-neardup-example/1.0 (a demonstration crawl that obeys robots.txt)"
ROBOTSTXT_OBEY = True
DOWNLOAD_DELAY = 0.5
CONCURRENT_REQUESTS_PER_DOMAIN = 2

LOG_LEVEL = "INFO"
TELNETCONSOLE_ENABLED = False
