"""Learns which differences between URLs do not matter, from what their pages said.

When a page was judged, its URL is compared with those of earlier pages from which it differs in
one thing. Two pages that say the same confirm a rule, two that do not contradict it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from secrets import token_bytes
from typing import NamedTuple

from scrapy_neardup.learn.changes import ABSENT, UrlChange, Variant, bare_host, place_of, variants
from scrapy_neardup.learn.dry_kinds import DryKinds
from scrapy_neardup.learn.rule import Rule, SamePair, Standing, predictions_for
from scrapy_neardup.learn.url_parts import KeyParts, cut, value_class

# What decisions of these kinds say of a page is not what its content says.
NO_EVIDENCE = ("undecided", "soft-404", "claimed")
MAX_HOSTS = 1024
MAX_FORMS = 65_536  # of all hosts: URLs, whole or without one part; about 250 bytes each
MAX_RULES = 1024  # of a host; most of them contradicted
MAX_SHAPES = 1024  # of a host
MAX_PLACES = 16  # of a shape: where URLs have had something more than it
MAX_STEPS = 8  # changes that are taken out of one URL
QUIET_AFTER = 2000  # pages of a host in a row that made no difference to a rule
VERIFIED = 20  # of so many URLs that a rule would skip, about one is downloaded all the same


class Judged(NamedTuple):
    """A page that was judged.

    key       of its URL, as the URL filter has it
    original  key of the page that it repeats; None where it says something new
    tells     whether that it repeats a page is evidence: not where it has hardly any words
    size      of its download, bytes
    weight    how many pages it stands for: itself, and others that were not looked at
    callback  what of the spider got it; "" where that does not matter, since nothing is skipped
    """

    url: str
    key: bytes
    original: bytes | None = None
    tells: bool = True
    size: int = 0
    weight: int = 1
    callback: str = ""


class Form(NamedTuple):
    """What is known of a URL, or of what is left of one without a part of it.

    content   URL under which its content was first seen
    callback  what of the spider got its page
    value     the part that was taken out; ABSENT where none was
    """

    content: str
    callback: str
    value: str = ABSENT

    @property
    def kind(self) -> str:
        """The class of the value."""
        return value_class(self.value)


class Twin(NamedTuple):
    """A URL whose page shows what another one would, by these rules.

    callback  what of the spider got the page that says so
    """

    url: str
    rules: tuple[Rule, ...]
    callback: str


class Evidence(NamedTuple):
    """Two URLs that differ in one thing only.

    rest     what they have in common
    removed  what the one has and the other has not, or has otherwise
    """

    change: UrlChange
    pair: SamePair
    rest: KeyParts
    removed: str


class Step(NamedTuple):
    """A rule that was applied to a URL, and what it took out."""

    rule: Rule
    variant: Variant


class Reduced(NamedTuple):
    """What is left of a URL, and by which steps."""

    parts: KeyParts
    steps: tuple[Step, ...] = ()

    def confirm_steps(self) -> None:
        """An earlier page showed the same: the rules hold for URLs like this one, too."""
        for rule, variant in self.steps:
            if rule.is_open:
                rule.also_holds_for(variant.rest, variant.value)

    @property
    def mark(self) -> str:
        """What keeps reduced URLs apart from real ones, of which it may turn out to be none."""
        return " reduced" if self.steps else ""


@dataclass(slots=True)
class LearntHost:
    """What is known of one host, `www.` or not.

    n_quiet  pages since one made a difference to a rule
    places   by shape, where longer URLs had something more: (what, where), and what one had there
    acting   rules that act, by what they take out
    longer   rules that act, by the shape of what is left when they took out something
    """

    n_quiet: int = 0
    forms: OrderedDict[str, Form] = field(default_factory=OrderedDict)
    rules: dict[tuple[str, UrlChange], Rule] = field(default_factory=dict)
    places: OrderedDict[str, dict[tuple[str, str], str]] = field(default_factory=OrderedDict)
    acting: dict[tuple[str, str, str], list[Rule]] = field(default_factory=dict)
    longer: dict[str, list[Rule]] = field(default_factory=dict)

    def put_place(self, shape: str, what: str, where: str, value: str) -> None:
        """A URL has something that another one of a shape has not."""
        places = self.places.setdefault(shape, {})
        if len(places) < MAX_PLACES:
            places[what, where] = value
        if len(self.places) > MAX_SHAPES:
            self.places.popitem(last=False)


class Learner:
    """Evidence and rules of all hosts, in bounded memory.

    The oldest URLs are forgotten first, and the hosts that were not met for longest. A URL that
    is forgotten is no evidence, and nothing is taken for its copy.

    dry      kinds of URLs that have stopped bringing anything new
    n_saved  downloads that trusted rules saved, or would have
    """

    def __init__(self, error: float, acts: bool = False) -> None:
        """error: a rule is trusted when its share of wrong predictions is below this, by 95 %.

        acts: whether rules skip downloads, so that a page that was downloaded was not saved.
        """
        self._needed = predictions_for(error)
        self.acts = acts
        self._key = token_bytes(16)  # nobody can tell which downloads are verified
        self._hosts: OrderedDict[str, LearntHost] = OrderedDict()
        self._n_forms = 0
        self.dry = DryKinds()
        self.n_saved = 0
        self.saved_bytes = 0

    # --- evidence

    def observe(self, page: Judged) -> list[Rule]:
        """Learn from a page; the rules that acted until it contradicted them."""
        url = cut(page.key)
        if url is None:
            return []
        host = self._host(url.host)
        host.n_quiet += 1
        content = self._content(host, page)
        acted = self._judge_prediction(host, url, page, content)
        acted += self._learn(host, Reduced(url), page, content)
        reduced = self._reduced(host, url, strictly=False)
        if reduced.steps:
            acted += self._learn(host, reduced, page, content)
        if acted:
            self._index_acting(host)
        return acted

    def _learn(self, host: LearntHost, url: Reduced, page: Judged, content: str) -> list[Rule]:
        """Compare a URL with its twins and remember it, once: again it would be its own twin."""
        name = url.parts.text + url.mark
        if known := host.forms.get(name):
            if page.tells and known.content == content:
                url.confirm_steps()
            return []
        taken_out = variants(url.parts)
        acted = self._compare(host, taken_out, url, page, content)
        acted += self._compare_with_longer(host, url, page, content)
        self._put(host, name, Form(content, page.callback))
        own_shape = url.parts.shape
        for variant in taken_out:
            if (name := variant.place + url.mark) not in host.forms:
                self._put(host, name, Form(content, page.callback, variant.value))
                shape = own_shape if variant.what == "argument" else variant.rest.shape
                if (variant.what, variant.where) not in host.places.get(shape, ()):
                    host.put_place(shape, variant.what, variant.where, variant.value)
        return acted

    @staticmethod
    def _content(host: LearntHost, page: Judged) -> str:
        if page.original is None:
            return page.url
        original = page.original.decode("utf-8", "replace")
        known = host.forms.get(original)
        return known.content if known else original

    def _judge_prediction(
        self, host: LearntHost, url: KeyParts, page: Judged, content: str
    ) -> list[Rule]:
        """Compare what trusted rules, together, say of a URL with its page."""
        twin = self._twin(host, url)
        if twin is None:
            return []
        if twin.url != content:
            host.n_quiet = 0
            return self._contradict(twin.rules, SamePair(page.url, twin.url))
        if not self.acts:
            self.saved(twin, page.size, page.weight)
        return []

    def saved(self, twin: Twin, size: int, n: int = 1) -> None:
        """Downloads were saved by rules, or would have been. size: bytes of one, 0 if not known."""
        self.n_saved += n
        self.saved_bytes += n * size
        for rule in twin.rules:
            rule.saved += n
            rule.saved_bytes += n * size

    def is_quiet(self, host: str) -> bool:
        """Whether the last pages of a host, `www.` or not, have taught nothing."""
        known = self._hosts.get(host)
        return known is not None and known.n_quiet >= QUIET_AFTER

    def not_saved(self, names: Collection[str]) -> None:
        """A download that rules of these names saved is made after all."""
        self.n_saved = max(0, self.n_saved - 1)
        for host in self._hosts.values():
            for rule in host.rules.values():
                if rule.saved and rule.name in names:
                    rule.saved -= 1

    @staticmethod
    def _contradict(rules: Iterable[Rule], pair: SamePair) -> list[Rule]:
        """Contradict rules; those that acted until now and do no more."""
        acting = [rule for rule in rules if rule.acts]
        for rule in rules:
            rule.contradicted(pair)
        return [rule for rule in acting if not rule.acts]

    def _compare(
        self, host: LearntHost, taken_out: list[Variant], url: Reduced, page: Judged, content: str
    ) -> list[Rule]:
        """Judge the rules by which this URL, without a part of it, is an earlier one."""
        acted: list[Rule] = []
        for variant in taken_out:
            for form in self._forms_of(host, variant, url):
                evidence = Evidence(
                    variant.change(form.kind),
                    SamePair(page.url, form.content),
                    variant.rest,
                    variant.value,
                )
                acted += self._judge(host, evidence, url, page, form.content == content)
        return acted

    def _compare_with_longer(
        self, host: LearntHost, url: Reduced, page: Judged, content: str
    ) -> list[Rule]:
        """Judge the rules by which an earlier URL, without a part of it, is this one."""
        acted: list[Rule] = []
        rest = url.parts
        for (what, where), value in host.places.get(rest.shape, {}).items():
            if form := self._longer_form(host, url, what, where, value):
                change, pair = UrlChange(what, where, form.kind), SamePair(form.content, page.url)
                evidence = Evidence(change, pair, rest, form.value)
                acted += self._judge(host, evidence, url, page, form.content == content)
        return acted

    def _judge(
        self, host: LearntHost, evidence: Evidence, url: Reduced, page: Judged, is_same: bool
    ) -> list[Rule]:
        """Confirm or contradict a rule; itself if it acted until now."""
        change, pair, rest, removed = evidence
        rule = self._rule(host, rest.shape, change)
        if rule is None or not rule.is_open:
            return []
        if not is_same:
            if rule.standing is not Standing.PROPOSED:
                host.n_quiet = 0
            return self._contradict([rule], pair)
        if page.tells:
            acts, standing = rule.acts, rule.standing
            rule.confirmed(pair, self._content(host, page), rest, removed, self._needed)
            url.confirm_steps()
            if rule.standing is not standing:
                host.n_quiet = 0
            if rule.acts and not acts:
                self._index_acting(host)
        return []

    def _forms_of(self, host: LearntHost, variant: Variant, url: Reduced) -> Iterator[Form]:
        """Earlier URLs that are the same without what is taken out of this one."""
        if whole := self._form(host, variant.text, url.mark):
            yield whole
        elif url.steps and (early := early_form(host, url._replace(parts=variant.rest))):
            yield early._replace(value=ABSENT)
        if variant.can_differ and (part := self._form(host, variant.place, url.mark)):
            yield part

    @staticmethod
    def _form(host: LearntHost, name: str, mark: str) -> Form | None:
        """What is known of a URL; of a reduced one, of what others were reduced to as well."""
        forms = host.forms
        return (forms.get(name + mark) if mark else None) or forms.get(name)

    def _put(self, host: LearntHost, name: str, form: Form) -> None:
        self._n_forms += name not in host.forms
        host.forms[name] = form
        if self._n_forms > MAX_FORMS:
            share = MAX_FORMS // len(self._hosts)
            crowded = (
                host
                if len(host.forms) > share
                else next(one for one in self._hosts.values() if one.forms)
            )
            crowded.forms.popitem(last=False)
            self._n_forms -= 1

    # --- rules

    def _host(self, name: str) -> LearntHost:
        bare = bare_host(name)
        host = self._hosts.get(bare)
        if host is None:
            host = self._hosts[bare] = LearntHost()
            if len(self._hosts) > MAX_HOSTS:
                self._forget_a_host()
        self._hosts.move_to_end(bare)
        return host

    def _forget_a_host(self) -> None:
        """The one not met for longest, of those without rules if there are any."""
        name = next(
            (
                n
                for n, host in self._hosts.items()
                if not any(map(is_worth_keeping, host.rules.values()))
            ),
            next(iter(self._hosts)),
        )
        self._n_forms -= len(self._hosts.pop(name).forms)

    def _rule(self, host: LearntHost, shape: str, change: UrlChange) -> Rule | None:
        """The rule for a change, made if there is room."""
        found = host.rules.get((shape, change))
        if found is not None:
            return found
        if not _has_room(host):
            return None
        rule = host.rules[shape, change] = Rule(shape, change)
        return rule

    def _index_acting(self, host: LearntHost) -> None:
        host.acting, host.longer = {}, {}
        for rule in host.rules.values():
            if rule.acts:
                host.acting.setdefault(rule.change[:3], []).append(rule)
                if rule.change.twin == ABSENT:
                    host.longer.setdefault(rule.shape, []).append(rule)

    def rules(self) -> list[Rule]:
        """Every rule that was proposed, the most useful first."""
        found = [r for host in self._hosts.values() for r in host.rules.values()]
        known = [r for r in found if is_worth_keeping(r)]
        return sorted(known, key=lambda r: (-r.saved, -r.right, r.shape, r.change))

    def hear(self, rules: Iterable[Rule]) -> None:
        """Other workers of the crawl trust rules, or have withdrawn them. O(rules).

        Beyond MAX_RULES of a host, further ones are not taken over.
        """
        self._index(rules, self._takes_over)

    def _takes_over(self, host: LearntHost, rule: Rule) -> bool:
        own = host.rules.get((rule.shape, rule.change))
        if own is None:
            if not _has_room(host):
                return False
            host.rules[rule.shape, rule.change] = replace(rule, saved=0, saved_bytes=0)
        elif not own.is_open or own.pinned:
            return False
        elif rule.contradiction is not None:
            own.contradicted(rule.contradiction)
        elif own.right < rule.right:
            saved, saved_bytes = own.saved, own.saved_bytes
            theirs = replace(rule, saved=saved, saved_bytes=saved_bytes)
            host.rules[rule.shape, rule.change] = theirs
        else:
            return False
        return True

    def restore(self, rules: Iterable[Rule]) -> None:
        """Go on with rules of an earlier crawl. O(rules)."""
        self._index(rules, _put)

    def _index(self, rules: Iterable[Rule], takes: Callable[[LearntHost, Rule], bool]) -> None:
        """Let hosts take rules; each that does is indexed once."""
        changed = {}
        for rule in rules:
            name = rule.shape.partition("/")[0]
            host = self._host(name)
            if takes(host, rule):
                changed[name] = host
        for host in changed.values():
            self._index_acting(host)

    # --- predictions

    def twin(self, key: bytes) -> Twin | None:
        """An earlier page that shows what the URL of a key would, by rules that act."""
        url = cut(key)
        host = self._hosts.get(bare_host(url.host)) if url else None
        return self._twin(host, url) if host is not None and url is not None else None

    def is_verified(self, key: bytes) -> bool:
        """Whether a URL is downloaded although it has a twin; drawn anew in each crawl."""
        drawn = int.from_bytes(blake2b(key, digest_size=8, key=self._key).digest())
        return drawn * VERIFIED < 1 << 64

    def _twin(self, host: LearntHost, url: KeyParts) -> Twin | None:
        if not host.acting:
            return None
        reduced = self._reduced(host, url, strictly=True)
        rules = tuple(step.rule for step in reduced.steps)
        if rules and (form := self._form(host, reduced.parts.text, reduced.mark)):
            return Twin(form.content, rules, form.callback)
        for start in (reduced, Reduced(url))[: len(rules) + 1]:
            if found := self._longer_twin(host, start):
                return found
            for variant in variants(start.parts):
                if found := self._twin_of_another_value(host, variant, start):
                    return found
        return None

    def _longer_twin(self, host: LearntHost, url: Reduced) -> Twin | None:
        """An earlier URL that has something more, which does not matter."""
        rest = url.parts
        for rule in host.longer.get(rest.shape, ()) if host.longer else ():
            what, where, value, _ = rule.change
            form = self._longer_form(host, url, what, where, value)
            if form and form.kind == value and rule.holds_for(rest):
                rules = *(step.rule for step in url.steps), rule
                return Twin(form.content, rules, form.callback)
        return None

    def _longer_form(
        self, host: LearntHost, url: Reduced, what: str, where: str, value: str
    ) -> Form | None:
        """An earlier URL that has something more; value: what one had there."""
        if form := self._form(host, place_of(url.parts.text, what, where), url.mark):
            return form
        if not url.steps or what != "argument":
            return None
        arguments = (*url.parts.arguments, f"{where}={value}")
        early = early_form(host, url._replace(parts=url.parts._replace(arguments=arguments)))
        return early and early._replace(value=value)

    def _twin_of_another_value(
        self, host: LearntHost, variant: Variant, url: Reduced
    ) -> Twin | None:
        rules = self._acting_on(host, variant) if variant.can_differ else ()
        if rules and (form := self._form(host, variant.place, url.mark)):
            for rule in rules:
                if rule.change.twin == form.kind and rule.holds_for(variant.rest):
                    steps = (step.rule for step in url.steps)
                    return Twin(form.content, (*steps, rule), form.callback)
        return None

    @staticmethod
    def _acting_on(host: LearntHost, variant: Variant) -> Sequence[Rule]:
        rules = host.acting.get((variant.what, variant.where, variant.kind))
        return [rule for rule in rules if rule.shape == variant.rest.shape] if rules else ()

    def _reduced(self, host: LearntHost, url: KeyParts, strictly: bool) -> Reduced:
        """A URL without what acting rules take out of it.

        strictly: only where they were confirmed for URLs like it. Otherwise it may be compared,
        and they are confirmed by it.
        """
        steps: list[Step] = []
        while host.acting and len(steps) < MAX_STEPS:
            found = next(self._steps(host, url, strictly), None)
            if found is None:
                break
            url, step = found
            steps.append(step)
        return Reduced(url, tuple(steps))

    def _steps(
        self, host: LearntHost, url: KeyParts, strictly: bool
    ) -> Iterator[tuple[KeyParts, Step]]:
        for variant in variants(url):
            for rule in self._acting_on(host, variant):
                if strictly and not rule.holds_for(variant.rest):
                    continue
                twin, step = rule.change.twin, Step(rule, variant)
                if twin == ABSENT:
                    yield variant.rest, step
                elif twin.startswith("{") and not variant.value.startswith("{"):
                    yield replaced(url, rule.change), step


def early_form(host: LearntHost, url: Reduced) -> Form | None:
    """An earlier URL that would be reduced to this one, had it not come before its rule acted."""
    for rule in (step.rule for step in url.steps):
        what, where, kind, twin = rule.change
        others = (v.rest for v in variants(url.parts) if (v.what, v.where) == (what, where))
        rest = url.parts if twin == ABSENT else next(others, None)
        form = rest and host.forms.get(place_of(rest.text, what, where))
        if rest and form and rule.shape == rest.shape and form.kind == kind:
            return form if rule.holds_for(rest) else None
    return None


def replaced(url: KeyParts, change: UrlChange) -> KeyParts:
    """A URL with what its twins have in the place that a change is about."""
    host, segments, arguments = url
    if change.what == "segment":
        place = int(change.where)
        return KeyParts(host, (*segments[:place], change.twin, *segments[place + 1 :]), arguments)
    name = f"{change.where}="
    if change.what == "matrix":
        parts = [segment.split(";") for segment in segments]
        filled = (";".join([p[0], *with_value(p[1:], name, change.twin)]) for p in parts)
        return KeyParts(host, tuple(filled), arguments)
    return KeyParts(host, segments, tuple(with_value(arguments, name, change.twin)))


def with_value(given: Iterable[str], name: str, value: str) -> Iterator[str]:
    """Arguments, with this value after each `name=`."""
    return (name + value if one.startswith(name) else one for one in given)


def _has_room(host: LearntHost) -> bool:
    """Whether a host may have one more rule; makes room where one is not worth keeping."""
    if len(host.rules) < MAX_RULES:
        return True
    evicted = next((k for k, rule in host.rules.items() if not is_worth_keeping(rule)), None)
    if evicted is not None:
        del host.rules[evicted]
    return evicted is not None


def _put(host: LearntHost, rule: Rule) -> bool:
    host.rules[rule.shape, rule.change] = rule
    return True


def is_worth_keeping(rule: Rule) -> bool:
    """Whether a rule was proposed, or is a person's: others may be forgotten."""
    return rule.pinned or (bool(rule.examples) and rule.standing is not Standing.PROPOSED)
