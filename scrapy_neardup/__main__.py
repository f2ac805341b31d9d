"""`python -m scrapy_neardup …`: the same as `scrapy neardup …`."""

import sys

from scrapy_neardup.commands import main

sys.exit(main())
