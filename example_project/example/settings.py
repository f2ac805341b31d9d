"""Settings of the example: the plugin needs the ADDONS line, everything else is ordinary."""

BOT_NAME = "example"
SPIDER_MODULES = ["example.spiders"]
EXTENSIONS = {"example.scorecard.Scorecard": 500}

ADDONS = {"scrapy_neardup.NearDupAddon": 500}
# Links are not followed out of copies. The site's endless calendar is none: every month shows
# another date, and a date is a fact. DEPTH_LIMIT ends it.
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
