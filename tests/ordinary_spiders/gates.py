"""Start pages that show more the second time: behind a login, an age, a cookie."""

from dataclasses import replace

import scrapy
from mock_site import Reply, redirect
from scrapy.http import FormRequest, Request

from .cases import Local, case
from .site import Ask, OrdinarySite, blurb, template

N_MEMBERS = 5
ENTER = '<form method="post" action="enter"><input name="years" value="40"></form>'


def gate(site: OrdinarySite, root: str) -> None:
    """`root/` shows its links to whoever came through `enter` or `quietly`."""
    cookie = {"Set-Cookie": f"in=1; Path={root}/"}
    links = "".join(f'<a href="{root}/member/{n}">{n}</a>' for n in range(N_MEMBERS))

    def front(ask: Ask) -> Reply:
        return Reply((links if "in=1" in ask.cookie else ENTER).encode())

    site.routes[f"{root}/"] = front
    site.routes[f"{root}/enter"] = lambda ask: redirect(f"{root}/", **cookie)
    site.routes[f"{root}/quietly"] = lambda ask: Reply(b"welcome", headers=cookie)
    for n in range(N_MEMBERS):
        site.add(f"{root}/member/{n}", template(f"Member {n}", blurb(80)))


class GateSpider(Local, scrapy.Spider):
    def links(self, response):
        yield from response.follow_all(css="a", callback=self.member)

    def member(self, response):
        yield {"name": response.css("h1::text").get()}


@case(gate)
class AgeGateSpider(GateSpider):
    name = "form-leads-back-to-the-start"

    def parse(self, response):
        if response.css("form"):
            return FormRequest(f"{self.root}/enter", formdata={"years": "40"})
        return self.links(response)


@case(gate)
class LoginSpider(GateSpider):
    name = "back-to-the-start-after-a-login"

    def parse(self, response):
        if response.css("a"):
            return self.links(response)
        return FormRequest(f"{self.root}/quietly", formdata={"user": "anna"}, callback=self.inside)

    def inside(self, response):
        yield Request(f"{self.root}/")


@case(gate)
class KwargsSpider(GateSpider):
    name = "back-to-the-start-with-kwargs"

    def parse(self, response, is_inside=False):
        if is_inside:
            yield from self.links(response)
        else:
            yield Request(f"{self.root}/quietly", self.inside)

    def inside(self, response):
        yield Request(f"{self.root}/", cb_kwargs={"is_inside": True})


@case(gate)
class MetaSpider(GateSpider):
    name = "back-to-the-start-with-meta"

    def parse(self, response):
        if response.meta.get("is_inside"):
            yield from self.links(response)
        else:
            yield Request(f"{self.root}/quietly", self.inside)

    def inside(self, response):
        yield Request(f"{self.root}/", meta={"is_inside": True})


@case(gate)
class CookieSpider(GateSpider):
    name = "back-to-the-start-with-its-own-cookie"

    def parse(self, response):
        if response.css("a"):
            return self.links(response)
        return Request(response.url, cookies={"in": "1"})


def gate_by_address(site: OrdinarySite, root: str) -> None:
    """Whoever has said his age is let in the next time, without a cookie."""
    gate(site, root)
    closed, inside = site.routes[f"{root}/"], list[str]()

    def enter(ask: Ask) -> Reply:
        inside.append(ask.method)
        return Reply(b"<a href='./'>on</a>")

    def front(ask: Ask) -> Reply:
        return closed(replace(ask, cookie="in=1") if inside and inside.pop() else ask)

    site.routes[f"{root}/enter"] = enter
    site.routes[f"{root}/"] = front


@case(gate_by_address)
class GateByAddressSpider(GateSpider):
    name = "back-to-the-start-known-by-address"

    def parse(self, response):
        if response.css("form"):
            yield Request(f"{self.root}/enter", self.inside)
        else:
            yield from self.links(response)

    def inside(self, response):
        yield response.follow(response.css("a")[0])


def cookie_wall(site: OrdinarySite, root: str) -> None:
    """A first answer that says nothing and sets a cookie."""
    gate(site, root)
    front = site.routes[f"{root}/"]

    def wall(ask: Ask) -> Reply:
        if "in=1" in ask.cookie:
            return front(ask)
        return Reply(b"Checking your browser", headers={"Set-Cookie": f"in=1; Path={root}/"})

    site.routes[f"{root}/"] = wall


@case(cookie_wall)
class CookieWallSpider(GateSpider):
    name = "asks-a-cookie-wall-again"

    def parse(self, response):
        return self.links(response) if response.css("a") else response.follow(response.url)
