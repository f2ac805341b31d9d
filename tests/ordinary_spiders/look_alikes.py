"""One page under many URLs, and items whose values look alike but are not the same."""

import dataclasses
from typing import Any

import scrapy
from mock_site import prose

from .cases import IndexSpider, case
from .unusual_values import number_of, one_page

LETTERS = "abcdefghijkl"
CODES = ("aB", "Ab", "AB", "bA", "aBc", "abC", "aBC", "ABc", "AbC", "ABC", "BA", "iB")
TEXT = prose("long text", 320)


@case(one_page)
class AddressSpider(IndexSpider):
    """Links that differ where URLs of one page may: in the fragment, and behind the URL."""

    name = "links-that-look-alike"

    def parse_page(self, response: Any):
        n = number_of(response)
        yield {"permalink": f"https://forum.example/thread#comment-{n}", "text": "+1"}
        yield {"app": f"https://app.example/#/products/{n}"}
        yield {"anchor": response.urljoin(f"#offer-{n}")}
        yield {"note": f"https://shop.example/ now #{n} of all shops"}
        yield {"images": f"https://a.example/1.png?utm_id=1,https://a.example/{n}.png"}
        yield {"images": f"https://a.example/1.png https://a.example/{n}.png?sid=4"}


class Offer(scrapy.Item):
    number = scrapy.Field()


class Request(scrapy.Item):
    number = scrapy.Field()


@dataclasses.dataclass
class Sale:
    number: int


@dataclasses.dataclass
class Rental:
    number: int


class Money(float):
    """A number that is nothing without its currency."""

    def __new__(cls, amount: float, currency: str) -> "Money":
        money = super().__new__(cls, amount)
        money.currency = currency
        return money

    def __repr__(self) -> str:
        return f"{float(self)} {self.currency}"


@case(one_page)
class ClassSpider(IndexSpider):
    """The class of an item, which decides where a pipeline stores it, or of a value."""

    name = "classes-that-look-alike"

    def parse_page(self, response: Any):
        n = number_of(response)
        kind = (Offer, Request, Sale, Rental)[n % 4]
        yield kind(number=n // 4)
        yield {"of": kind.__name__, "nested": [kind(number=n // 4)]}
        yield {"price": Money(19.5, f"{LETTERS[n]}UR")}


@case(one_page)
class TextSpider(IndexSpider):
    """Long texts that are equal but for a name, a link, a code or a letter."""

    name = "long-texts-that-look-alike"

    def parse_page(self, response: Any):
        n = number_of(response)
        letter = LETTERS[n]
        for kind, detail in {
            "mail": f"Write to {letter}nna@shop.example please",
            "link": f"See https://shop.example/{letter}-lamps please",
            "image": f"![lamp](images/{letter}.png)",
            "path": f"Unpack usr/share/{letter} first",
            "code": f"The code is {CODES[n]} today",
            "identifier": f"Call get_{letter}_size for it",
            "sequence": f"{'gattaca' * 6}{letter}{'ctgaagt' * 4}",
            "capitals": f"Flight {letter.upper()}XY to Rome",
            "range": f"From {letter}..z only",
            "hashtag": f"Tagged #{letter}lamp here",
            "emoji": f"We {chr(0x1F600 + n)} it",
        }.items():
            yield {"kind": kind, "text": f"{TEXT} {detail} {TEXT[::-1]}"}


@case(one_page)
class FragmentSpider(IndexSpider):
    """Pieces of HTML whose words and attributes are the same."""

    name = "fragments-that-look-alike"

    def parse_page(self, response: Any):
        n = number_of(response)
        letter, cells = LETTERS[n], ["<td></td>"] * 12
        cells[n] = "<td>5</td>"
        tag = ("b", "i", "u", "s", "del", "ins", "sup", "sub", "em", "code", "mark", "q")[n]
        for kind, markup in {
            "comment": f"<div><!-- stock: {n} --></div>",
            "tag": f"<div>19.00 <{tag}>17.00</{tag}></div>",
            "cells": f"<table><tr>{''.join(cells)}</tr></table>",
            "open": f"<img src=/{letter}.png><br>",
            "instruction": f"<div><?stock {letter}?></div>",
        }.items():
            yield {"kind": kind, "html": f"<p>{TEXT}{markup}" if kind == "open" else TEXT + markup}


@case(one_page)
class SpaceSpider(IndexSpider):
    """Rows whose columns are told apart by tabs."""

    name = "tabs-that-look-alike"

    def parse_page(self, response: Any):
        n = number_of(response)
        cells = [""] * 14
        cells[0], cells[n + 1], cells[13] = "Rome", "7", "open"
        yield {"row": "\t".join(cells)}


LAYOUTS = {
    "code": ("if a:\n    b()\nc()", "if a:\n    b()\n    c()"),
    "verses": ("roses are red\nviolets blue", "roses\nare red violets blue"),
    "stanzas": ("roses are red\n\nviolets blue", "roses are red\nviolets blue"),
    "seats": ("X  X X", "X X  X", " XX  X", "XX  X "),
    "record": ("AB   12", "AB  12 ", "AB 12"),
}


@case(one_page)
class LayoutSpider(IndexSpider):
    """Words that are the same and stand elsewhere: in short values and in long ones."""

    name = "layouts-that-look-alike"

    def parse_page(self, response: Any):
        n = number_of(response)
        for kind, layouts in LAYOUTS.items():
            if n < len(layouts):
                yield {"kind": kind, "value": layouts[n]}
                yield {"kind": kind, "text": f"{TEXT}\n{layouts[n]}\n{TEXT}"}


@case(one_page)
class TraceSpider(IndexSpider):
    """Times that differ below the microsecond, or in their zone."""

    name = "times-that-look-alike"

    def parse_page(self, response: Any):
        n = number_of(response)
        yield {"at": f"2020-05-01T10:00:00.1234560{n:02}Z"}
        yield {"at": f"2020-05-01T10:00:00{('Z', '+00:00', '', '-00:00')[n % 4]}", "n": n // 4}
