"""Rules for URLs are learnt from many originals, contradicted by one page, and hide nobody's."""

from collections.abc import Iterator
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scrapy_neardup.learn import learner as learner_module
from scrapy_neardup.learn.changes import UrlChange
from scrapy_neardup.learn.learner import Judged, Learner
from scrapy_neardup.learn.rule import (
    MAX_NAMES,
    MAX_PLACES,
    NAMES,
    Rule,
    Standing,
    error_bound,
    predictions_for,
)
from scrapy_neardup.learn.url_parts import cut, value_class

ERROR = 0.1
NEEDED = predictions_for(ERROR) + 5


class Site:
    """Pages by what they say: the first URL of each content is its original."""

    def __init__(self, learner: Learner) -> None:
        self.learner = learner
        self.originals: dict[str, bytes] = {}

    def page(self, url: str, content: str, tells: bool = True) -> list[Rule]:
        """A page was downloaded; the rules that it withdraws."""
        key = url.encode()
        original = self.originals.setdefault(content, key)
        return self.learner.observe(
            Judged(url, key, None if original == key else original, tells, 1000)
        )


@pytest.fixture
def learner() -> Learner:
    return Learner(ERROR)


@pytest.fixture
def site(learner: Learner) -> Site:
    return Site(learner)


def token(number: int) -> str:
    return f"{Random(number).getrandbits(64):016x}a1"


def name_of(number: int) -> str:
    """A word that no other number has."""
    return f"x{number:03}".translate(str.maketrans("0123456789", "abcdefghij"))


def teach_session(site: Site, n: int = NEEDED) -> None:
    for i in range(n):
        site.page(f"a.example/item?id={i}", f"item {i}")
        site.page(f"a.example/item?id={i}&sid={token(i)}", f"item {i}")


def trusted(learner: Learner) -> list[UrlChange]:
    return [rule.change for rule in learner.rules() if rule.standing is Standing.TRUSTED]


def twin(learner: Learner, url: str) -> str | None:
    found = learner.twin(url.encode())
    return found.url if found else None


def test_an_argument_that_never_matters_is_learnt(site: Site, learner: Learner) -> None:
    teach_session(site)
    assert trusted(learner) == [UrlChange("argument", "sid", "{id}")]
    site.page("a.example/item?id=999", "another item")
    assert twin(learner, "a.example/item?id=999&sid=f00dfeed12") == "a.example/item?id=999"


def test_nothing_is_skipped_whose_twin_was_not_fetched(site: Site, learner: Learner) -> None:
    teach_session(site)
    assert twin(learner, "a.example/item?id=777&sid=f00dfeed12") is None


def test_a_rule_needs_as_many_originals_as_its_bound_says(site: Site, learner: Learner) -> None:
    teach_session(site, NEEDED - 1)
    assert not trusted(learner)
    assert error_bound(NEEDED - 5) <= ERROR < error_bound(NEEDED - 6)


def test_one_page_under_many_urls_is_evidence_once(site: Site, learner: Learner) -> None:
    for i in range(500):
        site.page(f"a.example/item?id=1&sid={token(i)}", "one item")
    assert not learner.rules()


def test_one_contradiction_withdraws_a_rule(site: Site, learner: Learner) -> None:
    teach_session(site)
    site.page("a.example/item?id=999", "another item")
    (withdrawn,) = site.page("a.example/item?id=999&sid=f00dfeed12", "what only members see")
    assert withdrawn.standing is Standing.WITHDRAWN
    assert twin(learner, "a.example/item?id=0&sid=f00dfeed13") is None
    teach_session(site, 2 * NEEDED)
    assert not trusted(learner)


def test_pages_with_hardly_any_words_are_no_evidence(site: Site, learner: Learner) -> None:
    for i in range(NEEDED):
        site.page(f"a.example/item?id={i}", f"item {i}")
        site.page(f"a.example/item?id={i}&sid={token(i)}", f"item {i}", tells=False)
    assert not learner.rules()


def test_a_soft_404_proves_nothing(site: Site, learner: Learner) -> None:
    for i in range(1000):
        site.page(f"a.example/gone/{i}?v={i}", "Sorry, there is no such page here")
    assert not learner.rules()


def test_a_copy_of_a_copy_shows_what_its_original_shows(site: Site, learner: Learner) -> None:
    for i in range(NEEDED):
        key, copy = f"a.example/item?id={i}", f"a.example/item?id={i}&sid={token(i)}"
        site.page(key, f"item {i}")
        site.page(copy, f"item {i}")
        third = copy + "1"
        learner.observe(Judged(third, third.encode(), copy.encode()))
    assert trusted(learner)
    assert not any(rule.contradiction for rule in learner.rules())


def test_the_argument_that_names_the_page_is_never_learnt(site: Site, learner: Learner) -> None:
    for i in range(1000):
        site.page(f"a.example/item?id={i}&sid={token(i % 7)}", f"item {i}")
    assert not learner.rules()


LEARNT = {
    "print": ("a.example/item?id={i}", "a.example/item?id={i}&print=1"),
    "print segment": ("a.example/item/{i}", "a.example/item/{i}/print"),
    "amp first": ("a.example/news/{i}", "a.example/amp/news/{i}"),
    "slash": ("a.example/item/{i}", "a.example/item/{i}/"),
    "index": ("a.example/item/{i}/", "a.example/item/{i}/index.html"),
    "case": ("a.example/item/{i}", "a.example/Item/{i}"),
    "www": ("a.example/item/{i}", "www.a.example/item/{i}"),
    "mobile": ("a.example/item/{i}", "m.a.example/item/{i}"),
    "amp host": ("a.example/item/{i}", "amp.a.example/item/{i}"),
    "matrix": ("a.example/item/{i}", "a.example/item/{i};s={t}"),
    "matrix everywhere": ("a.example/item;s={t}/{i}", "a.example/item;s={u}/{i}"),
    "session in path": ("a.example/item/{i}/x", "a.example/{t}/item/{i}/x"),
    "session in both": ("a.example/{t}/item/{i}/x", "a.example/{u}/item/{i}/x"),
    "session everywhere": ("a.example/item?id={i}&s={t}", "a.example/item?id={i}&s={u}"),
    "sort": ("a.example/list?page={i}&sort=down", "a.example/list?page={i}&sort=up"),
    "repeated": ("a.example/item?p={i}", "a.example/item?p={i}&p=2"),
    "leaf of words": ("a.example/wiki/{w}", "a.example/wiki/{w}?printable=yes"),
}


def filled(pattern: str, i: int) -> str:
    word = "".join("abcdefghij"[int(digit)] for digit in str(i))
    return pattern.format(i=i, t=token(i), u=token(10_000 + i), w=word)


@pytest.mark.parametrize("kind", LEARNT)
def test_copies_of_each_kind_are_learnt(kind: str, site: Site, learner: Learner) -> None:
    plain, copy = LEARNT[kind]
    for i in range(NEEDED):
        site.page(filled(plain, 100 + i), f"item {i}")
        site.page(filled(copy, 100 + i), f"item {i}")
    assert 1 <= len(trusted(learner)) <= 2  # a segment with a parameter may not matter as a whole
    site.page(filled(plain, 999), "the newest")
    assert twin(learner, filled(copy, 999)) == filled(plain, 999)


@pytest.mark.parametrize("kind", ["print", "sort", "session"])
def test_a_copy_may_come_before_its_original(kind: str, site: Site, learner: Learner) -> None:
    longer = {"print": "&print=1", "sort": "&sort=up", "session": "&sid={token}"}[kind]
    for i in range(NEEDED):
        site.page(f"a.example/item?id={i}{longer.format(token=token(i))}", f"item {i}")
        site.page(f"a.example/item?id={i}", f"item {i}")
    assert trusted(learner)
    copy = f"a.example/item?id=999{longer.format(token=token(999))}"
    site.page(copy, "another item")
    assert twin(learner, "a.example/item?id=999") == copy
    (withdrawn,) = site.page("a.example/item?id=999", "what was hidden")
    assert withdrawn.standing is Standing.WITHDRAWN


def test_two_rules_apply_together(site: Site, learner: Learner) -> None:
    """A session that is drawn anew for each link, and a print version."""
    for i in range(4 * NEEDED):
        site.page(f"a.example/item?id={i}&sid={token(3 * i)}", f"item {i}")
        site.page(f"a.example/item?id={i}&sid={token(3 * i + 1)}", f"item {i}")
        site.page(f"a.example/item?id={i}&print=1&sid={token(3 * i + 2)}", f"item {i}")
    assert len(trusted(learner)) >= 2
    site.page("a.example/item?id=999&sid=f00dfeed12", "the newest")
    newest = twin(learner, "a.example/item?id=999&print=1&sid=deadbeef77")
    assert newest == "a.example/item?id=999&sid=f00dfeed12"


@pytest.mark.parametrize("of_originals", ["", "&print=1"])
def test_a_second_rule_is_learnt_from_originals_that_came_before_the_first(
    of_originals: str, site: Site, learner: Learner
) -> None:
    """None of them was met without its session, which is what the second rule compares with."""
    n, of_others = 3 * NEEDED, {"": "&print=1", "&print=1": ""}[of_originals]
    sessions = map(token, range(1000))
    pages = [(i, of_originals) for i in (*range(n), *range(NEEDED))]
    pages += [(i, of_others) for i in range(NEEDED, 2 * NEEDED)]
    for i, more in pages:
        site.page(f"a.example/item?id={i}&sid={next(sessions)}{more}", f"item {i}")
    assert UrlChange("argument", "print", "1") in trusted(learner)
    assert twin(learner, f"a.example/item?id={n - 1}&sid={token(-1)}{of_others}") is not None


def test_that_a_value_does_not_matter_says_nothing_of_urls_without_it(
    site: Site, learner: Learner
) -> None:
    for number in range(6 * NEEDED):
        i = number % (2 * NEEDED)
        site.page(f"a.example/item?id={i}&sid={token(number)}", f"item {i}")
        assert set(trusted(learner)) <= {UrlChange("argument", "sid", "{id}", "{id}")}
    assert trusted(learner)
    assert twin(learner, "a.example/item?id=1") is None


def test_what_holds_of_one_language_holds_of_no_other(site: Site, learner: Learner) -> None:
    for i in range(NEEDED):
        site.page(f"a.example/item?id={i}", f"item {i}")
        site.page(f"a.example/item?id={i}&lang=en", f"item {i}")
    site.page("a.example/item?id=999", "the newest")
    assert twin(learner, "a.example/item?id=999&lang=en") is not None
    assert twin(learner, "a.example/item?id=999&lang=de") is None


# --- adversaries


def victims() -> Iterator[tuple[str, str, str, str]]:
    """Where somebody writes pages beside another: theirs, their copies, the victim's two."""
    yield (
        "a.example/~mallory/p?n={i}",
        "a.example/~mallory/p?n={i}&v={t}",
        "a.example/~alice/p?n=1",
        "a.example/~alice/p?n=1&v=f00dfeed12",
    )
    yield (
        "a.example/blog/mallory/{i}",
        "a.example/blog/mallory/{i}?v={t}",
        "a.example/blog/alice/1",
        "a.example/blog/alice/1?v=f00dfeed12",
    )
    yield (
        "a.example/blog?n={i}&user=mallory",
        "a.example/blog?n={i}&user=mallory&v={t}",
        "a.example/blog?n=1&user=alice",
        "a.example/blog?n=1&user=alice&v=f00dfeed12",
    )
    yield (
        "mallory.example/p?n={i}",
        "mallory.example/p?n={i}&v={t}",
        "alice.example/p?n=1",
        "alice.example/p?n=1&v=f00dfeed12",
    )
    yield (
        "a.example/user-4711/p?n={i}",
        "a.example/user-4711/p?n={i}&v={t}",
        "a.example/user-4712/p?n=1",
        "a.example/user-4712/p?n=1&v=f00dfeed12",
    )


@pytest.mark.parametrize("case", list(victims()))
def test_an_author_teaches_nothing_about_anothers_pages(
    case: tuple[str, str, str, str], site: Site, learner: Learner
) -> None:
    own, copy, first, second = case
    for i in range(3 * NEEDED):
        site.page(filled(own, i), f"mallory {i}")
        site.page(filled(copy, i), f"mallory {i}")
    assert trusted(learner)
    site.page(first, "Alice's page")
    assert twin(learner, second) is None


@pytest.mark.parametrize(
    "url",
    ["a.example/u/{name}/post/{i}", "a.example/p?n={i}&user={name}"],
    ids=["folder", "argument"],
)
def test_however_many_names_taught_a_rule_the_first_page_of_another_is_read(
    url: str, site: Site, learner: Learner
) -> None:
    """Accounts cost nothing, and many sites ignore a name in the path: one author has them all."""
    more = "&print=1" if "?" in url else "?print=1"
    for i in range(3 * NEEDED):
        own = url.format(name=name_of(i), i=1000 + i)
        site.page(own, f"mallory {i}")
        site.page(own + more, f"mallory {i}")
    assert trusted(learner)
    first, second = (url.format(name="alice", i=i) for i in (7000, 7001))
    site.page(first, "Alice's page")
    assert twin(learner, first + more) is None
    site.page(first + more, "Alice's page")
    site.page(second, "Alice's next page")
    assert twin(learner, second + more) is not None


@pytest.mark.parametrize(
    ("own", "others"),
    [
        ("a.example/u/all/post/{i}", "a.example/u/all/post/7000"),
        ("a.example/u/{i}/post/{i}", "a.example/u/4711/post/7000"),
        ("a.example/u/alice/post/{i}", "a.example/u/alice/post/7000"),
    ],
    ids=["no name", "numbered accounts", "a site that ignores the name"],
)
def test_without_a_name_that_tells_them_apart_an_author_teaches_a_rule_about_another(
    own: str, others: str, site: Site, learner: Learner
) -> None:
    """A limit that docs/security.md tells of: the copy shows more, and is skipped."""
    for i in range(1000, 1000 + 3 * NEEDED):
        site.page(own.format(i=i), f"mallory {i}")
        site.page(own.format(i=i) + "?print=1", f"mallory {i}")
    site.page(others, "Alice's page")
    assert twin(learner, others + "?print=1") == others


@pytest.mark.parametrize(
    "url", ["shop.example/en/{name}", "shop.example/en/{name}/", "s.example/?p={name}"]
)
def test_a_name_of_the_page_itself_may_be_new(url: str, site: Site, learner: Learner) -> None:
    """Each product has a name of its own: if it had to be known, a rule would save nothing."""
    more = "&print=1" if "?" in url else "?print=1"
    for i in range(3 * NEEDED):
        own = url.format(name=name_of(i))
        site.page(own, f"product {i}")
        site.page(own + more, f"product {i}")
    newest = url.format(name="teapot")
    site.page(newest, "the newest")
    assert twin(learner, newest + more) is not None


def test_a_mirror_below_a_public_suffix_teaches_nothing_about_it(
    site: Site, learner: Learner
) -> None:
    for i in range(NEEDED):
        site.page(f"github.io/{i}/x", f"page {i}")
        site.page(f"m.github.io/{i}/x", f"page {i}")
    assert not trusted(learner)


@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_no_rule_survives_a_page_that_it_would_have_hidden(data: st.DataObject) -> None:
    """Whatever arguments matter on a site: what a trusted rule predicts was right each time."""
    learner = Learner(0.3)
    site = Site(learner)
    matter = data.draw(st.sets(st.sampled_from("abc")), "arguments that matter")
    values = st.sampled_from(["", "1", "27", "31", "xy", "f00d4feed5"])
    for _ in range(data.draw(st.integers(1, 150), "pages")):
        given = {name: data.draw(values) for name in "abc"}
        url = "h.example/p/q?" + "&".join(f"{k}={v}" for k, v in given.items() if v)
        content = f"page {[given[name] for name in sorted(matter)]}"
        predicted = learner.twin(url.rstrip("?").encode())
        site.page(url.rstrip("?"), content)
        if predicted is not None and predicted.url != site.originals[content].decode():
            assert not any(rule.acts for rule in predicted.rules)


# --- memory


def test_a_host_is_quiet_while_its_pages_teach_nothing(
    site: Site, learner: Learner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scrapy_neardup.learn.learner.QUIET_AFTER", 50)
    teach_session(site)
    assert not learner.is_quiet("a.example")  # a rule has just been trusted
    for i in range(50):
        site.page(f"a.example/other/{i}", f"other {i}")
    assert learner.is_quiet("a.example")
    site.page("a.example/item?id=999", "another item")
    site.page("a.example/item?id=999&sid=f00dfeed12", "what only members see")
    assert not learner.is_quiet("a.example")


def test_a_page_may_stand_for_others_that_were_not_looked_at(site: Site, learner: Learner) -> None:
    teach_session(site)
    before = learner.n_saved
    site.page("a.example/item?id=999", "another item")
    copy, original = b"a.example/item?id=999&sid=f00dfeed12", b"a.example/item?id=999"
    learner.observe(Judged(f"http://{copy.decode()}", copy, original, weight=4))
    assert learner.n_saved == before + 4


def test_a_share_below_one_in_a_billion_verifies_none_of_5000_urls(
    learner: Learner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(learner_module, "VERIFIED", 10**12)
    assert not any(learner.is_verified(b"a.example/%d" % i) for i in range(5000))


def test_memory_is_bounded(site: Site, learner: Learner, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("MAX_FORMS", 500), ("MAX_HOSTS", 20), ("MAX_RULES", 3)):
        monkeypatch.setattr(learner_module, name, value)
    for i in range(1000):
        site.page(f"h{i % 30}.example/a/b/{i}?x={i}", f"page {i}")
    assert len(learner._hosts) <= 20
    assert all(len(host.rules) <= 3 for host in learner._hosts.values())
    assert learner._n_forms <= 500
    assert learner._n_forms == sum(len(host.forms) for host in learner._hosts.values())


def test_words_and_digits_stand_for_themselves() -> None:
    assert [value_class(v) for v in ("red", "de-AT", "7", "12", "a1b2c3", "x" * 30, "")] == [
        *("red", "de-AT", "7", "{n}", "{id}", "{text}", "")
    ]


@pytest.mark.parametrize("key", [b"a.example/ key=00", b"a.example/p#!x", b"\xff/x", b"no-path"])
def test_what_is_no_plain_url_is_left_alone(key: bytes) -> None:
    assert cut(key) is None


def test_a_rule_remembers_so_many_places_and_holds_for_no_others() -> None:
    rule = Rule("a.example/p", UrlChange("argument", "sid", "abc"))
    urls = [cut(f"a.example/p?x{n}=1&sid=abc".encode()) for n in range(2 * MAX_PLACES)]
    for url in urls:
        assert url is not None
        rule.also_holds_for(url, "abc")
    assert len(rule.values) == MAX_PLACES
    assert urls[0] is not None
    assert rule.holds_for(urls[0])
    assert urls[-1] is not None
    assert not rule.holds_for(urls[-1])


def test_a_rule_remembers_so_many_names_and_holds_for_no_others() -> None:
    rule = Rule("a.example/u/*/*", UrlChange("argument", "print", "1"))
    urls = [cut(f"a.example/u/{name_of(n)}/7".encode()) for n in range(MAX_NAMES + 1)]
    for url in urls:
        assert url is not None
        rule.also_holds_for(url, "1")
    assert len(rule.values[NAMES]) == MAX_NAMES
    assert urls[0] is not None
    assert rule.holds_for(urls[0])
    assert urls[-1] is not None
    assert not rule.holds_for(urls[-1])
