"""What a request carries on: an item may be under way in it, which is lost if it is not made."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType, MethodType
from typing import Any

from scrapy import Spider
from scrapy.http import Request

from scrapy_neardup.crawl.requests.request_tracker import is_behind_form

# What of request.meta says how a page is fetched, or where its link was found. All other keys are
# the spider's, by which it may pass on what it read: whole names, as it may have a `depth_item`.
HOW_FETCHED = frozenset(
    {
        # Scrapy's documentation, and its middlewares
        *("allow_offsite", "autothrottle_dont_adjust_delay", "bindaddress", "cookiejar"),
        *("dont_cache", "dont_merge_cookies", "dont_obey_robotstxt", "dont_redirect", "dont_retry"),
        *("download_fail_on_dataloss", "download_latency", "download_maxsize", "download_slot"),
        *("download_timeout", "download_warnsize", "ftp_local_filename", "ftp_passive"),
        *("ftp_password", "ftp_user", "give_up_log_level", "handle_httpstatus_all"),
        *("handle_httpstatus_list", "http_auth_domain", "http_pass", "http_user", "is_secure"),
        *("is_start_request", "max_retry_times", "priority_adjust", "proxy", "redirect_reasons"),
        *("redirect_times", "redirect_ttl", "redirect_urls", "referrer_policy", "retry_times"),
        *("verbatim_url", "_auth_proxy", "_dont_cache", "_scheme_proxy", "cache_timestamp"),
        *("cached_response", "depth", "depth_reset"),
        # browsers and services that fetch for Scrapy
        *("playwright", "playwright_context", "playwright_context_kwargs", "playwright_page"),
        *("playwright_include_page", "playwright_page_coroutines", "playwright_page_goto_kwargs"),
        *("playwright_page_event_handlers", "playwright_page_init_callback"),
        *("playwright_page_methods", "playwright_security_details"),
        *("playwright_suggested_filename", "splash", "_splash_processed", "ajax_crawlable"),
        *("zyte_api", "zyte_api_automap", "zyte_api_default_params", "zyte_api_provider"),
        *("zyte_api_retry_policy", "zyte_api_session_enabled", "zyte_api_session_location"),
        *("zyte_api_session_params", "zyte_api_session_pool", "dont_proxy"),
        *("impersonate", "impersonate_args", "_rotating_proxy", "proxy_retry_times"),
        # ours, and that of the site rules
        *("neardup_asked", "neardup_found_on", "neardup_in_full", "neardup_key"),
        *("neardup_key_used", "neardup_refresh", "neardup_skip", "neardup_trace", "dud"),
    }
)

OF_A_RULE = {"link_text", "rule"}  # CrawlSpider sets both: one alone is of the spider's own


def carries_nothing(request: Request) -> bool:
    """Whether a request is a link and no more: no form, and nothing that an item is built of."""
    if request.method != "GET" or request.body or request.cb_kwargs or request.flags:
        return False
    return (
        (HOW_FETCHED.issuperset(request.meta) or request.meta.keys() - HOW_FETCHED == OF_A_RULE)
        and holds_nothing(request.callback)
        and holds_nothing(request.errback)
    )


def may_carry_an_item(request: Request) -> bool:
    """Whether a request of the spider, or what a redirect made of it, is more than a link.

    A link on the page that a form led to may show what was sent with the form.
    """
    return not carries_nothing(request) or is_behind_form(request)


def holds_nothing(handler: Callable[..., Any] | None) -> bool:
    """Whether a callback or errback has nothing of its own to build an item of.

    Methods of the spider's class have nothing, nor do functions without variables around them and
    defaults. A lambda, a partial or a method of another object may hold what was read.
    """
    if handler is None:
        return True
    if isinstance(handler, MethodType):
        spider = handler.__self__
        return isinstance(spider, Spider) and is_in_class(handler.__func__, type(spider))
    if not isinstance(handler, FunctionType):
        return False
    return not (handler.__closure__ or handler.__defaults__ or handler.__kwdefaults__)


def is_in_class(function: Callable[..., Any], owner: type) -> bool:
    """Whether a class, or one that it is made of, has a function under any name."""
    if getattr(owner, getattr(function, "__name__", ""), None) is function:
        return True
    # By id(): what else a class holds may not be comparable. Names differ where they are private,
    # and behind some decorators.
    return any(id(function) in map(id, vars(one).values()) for one in owner.__mro__)
