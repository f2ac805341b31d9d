"""What a request carries on: an item may be under way in it, which is lost if it is not made."""

from __future__ import annotations

import re

from scrapy.http import Request

from scrapy_neardup.crawl.request_tracker import is_behind_form

# What of request.meta says how a page is fetched, or where its link was found. All other keys are
# the spider's, by which it may pass on what it read.
HOW_FETCHED = re.compile(
    "download_|dont_|handle_httpstatus_|redirect_|retry_|max_retry_times|allow_offsite|cookiejar|"
    "proxy|bindaddress|depth|is_start_request|give_up_log_level|neardup_|playwright|splash|zyte_|_|"
    "rule$|link_text$"
)


def carries_nothing(request: Request) -> bool:
    """Whether a request is a link and no more: no form, and nothing that an item is built of."""
    if request.method != "GET" or request.body or request.cb_kwargs:
        return False
    return all(HOW_FETCHED.match(str(key)) for key in request.meta)


def may_carry_an_item(request: Request) -> bool:
    """Whether a request of the spider, or what a redirect made of it, is more than a link.

    A link on the page that a form led to may show what was sent with the form.
    """
    return not carries_nothing(request) or is_behind_form(request)
