"""Facts: what counts as one, what is a difference, and that no product is dropped for another."""

import random
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mock_site import prose

from scrapy_neardup.detect.detector import Detector
from scrapy_neardup.detect.facts import (
    REASONS,
    differences,
    exact_text_and_facts,
    packed,
    reworded,
)
from scrapy_neardup.detect.text import words_and_blocks
from scrapy_neardup.engines import load_engine
from scrapy_neardup.index import load_index
from scrapy_neardup.kernels.numpy_twin import U64Array
from scrapy_neardup.kernels.numpy_twin.facts import (
    FACT_WORDS,
    FEW_PLACES,
    OTHERWISE,
    REPLACED,
    SWAPPED,
    TWO_PLACES,
)

FAR = 100.0  # shingles that differ
TEXT = "a text of so many words that nobody would take this line of it for a label"
ENGLAND, WALES = (  # a black flag, and invisible letters that say whose
    f"🏴{''.join(chr(0xE0000 + ord(letter)) for letter in region)}\U000e007f"
    for region in ("gbeng", "gbwls")
)


def row(text: str, *heads: str, are_own: bool = True) -> U64Array:
    """The facts of a page of which all lines are its own, or a template's."""
    words, blocks = words_and_blocks(text)
    facts = exact_text_and_facts(text, heads)[1]
    n = len(blocks.hashes) + len(facts.titles) + len(facts.headings)
    return packed(words, blocks, facts, np.full(n, are_own))


def difference(one: U64Array, other: U64Array, n_differing: float = FAR) -> str | None:
    differing = np.array([n_differing], dtype=np.float64)
    (found,) = differences(one, other.reshape(1, -1), differing, differing).tolist()
    return (None, *REASONS)[found]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Price: £19.99 only", "Price: £29.99 only"),
        ("£ 500 for all", "$ 500 for all"),
        ("outside it is -5 °C", "outside it is 5 °C"),
        ("outside it is –5 °C", "outside it is 5 °C"),
        ("978-0-00-1", "979-1-23-4"),
        ("★", "★★★"),
        ("written in C by hand", "written in C++ by hand"),
        ("if x < y: pass", "if x > y: pass"),
        ("so that x∈A holds", "so that x∉A holds"),
        ("where (p∧q) is true", "where (p∨q) is true"),
        ("T-shirt, size M", "T-shirt, size L"),
        ("the angle α of both", "the angle β of both"),
        ("для класса Г всё", "для класса Д всё"),
        ("כיתה א של בית", "כיתה ב של בית"),
        ("from 5 to 7 km", "from 7 to 5 km"),
        ("an area of 5 m²", "an area of 5 m2"),
        ("x²", "x2"),
        ("½ of it", "¼ of it"),
        (f"plays for {ENGLAND}", f"plays for {WALES}"),
        (f"Club: {ENGLAND}5, fans", f"Club: {WALES}5, fans"),
        ("plays for 🏴", f"plays for {WALES}"),
        (f"{ENGLAND}{WALES}", f"{WALES}{ENGLAND}"),
        ("Henry Ⅷ of England", "Henry Ⅶ of England"),
        ("it weighs 1.000 kg", "it weighs 1,000 kg"),
        ("a\nlot 5 of wood\nb", "a\nlot 6 of wood\nb"),
        ("a dose of 10 mg a day", "a dose of 10 kg a day"),
        ("that costs (500 USD) in all", "that costs (500 EUR) in all"),
        ("within 3 weeks of that", "within 3 days of that"),
        ("write to anna@shop.example today", "write to otto@shop.example today"),
        ("take .5 mg of it", "take 5 mg of it"),
        ("take (,5 mg) of it", "take (5 mg) of it"),
        ("start ./run of it", "start .run of it"),
        ("if a := b holds", "if a = b holds"),
        ("if a != b holds", "if a = b holds"),
        ("a dose of 5 mg/kg a day", "a dose of 5 mg/ml a day"),
        ("a dose of 5 mg/kg/d at most", "a dose of 5 mg/kg/h at most"),
        ("as f′ is small", "as f″ is small"),
        ("a part of 5 ‰ is", "a part of 5 ‱ is"),
    ],
)
def test_a_fact_that_was_replaced_is_a_difference(one: str, other: str) -> None:
    around = "first line\n{}\nlast line"
    pair = row(around.format(one)), row(around.format(other))
    assert difference(*pair) == difference(*pair[::-1]) == "number or symbol"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("in part IV of it", "in part VI of it"),
        ("it has two rooms", "it has three rooms"),
        ("each Monday in May", "each Tuesday in May"),
        ("два дома на углу", "три дома на углу"),
    ],
)
def test_another_value_in_words_is_a_difference(one: str, other: str) -> None:
    one, other = f"a text of many words, {one} of it", f"a text of many words, {other} of it"
    assert difference(row(one), row(other), FEW_PLACES) == "number or symbol"
    assert difference(row(one), row(other), FEW_PLACES + 1) is None
    assert reworded(row(one), row(other).reshape(1, -1), np.full(1, FAR)).tolist() == [REPLACED]
    assert difference(row(one), row(f"{other}\nand two more"), FEW_PLACES) is None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("read 5 pages", "read 5 pages\nand 7 more"),
        ("Map<K, V> of it", "Map <K, V> of it"),
        ("It is easy.", "it IS easy"),
        ("5\u200b km far", "5 km far"),
        ("（５）", "(5)"),
        ("from 5–7 km away", "from 5-7 km away"),
        ("plain words", "other words"),
        ("and so on... then", "and so on ...then"),
        ("of 5 excellent pages", "of 5 wonderful pages"),
        ("of 5 green old pages", "of 5 green new pages"),
    ],
)
def test_what_is_added_or_set_otherwise_is_none(one: str, other: str) -> None:
    assert difference(row(one), row(other)) is None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("the train goes Berlin→Paris today", "the train goes Berlin←Paris today"),
        ("holds A♠K at the table", "holds A♥K at the table"),
        ("NaCl→Na in water", "NaCl⇌Na in water"),
        ("評価は★★★☆☆でした", "評価は★★★★☆でした"),
        ("価格は€で表示", "価格は£で表示"),
        ("the term x+y is given", "the term x*y is given"),
        ("write a^b for it", "write a#b for it"),
    ],
)
def test_a_symbol_within_a_word_is_a_fact(one: str, other: str) -> None:
    assert difference(row(one), row(other)) == "number or symbol"


@pytest.mark.parametrize(
    ("one", "other"),
    [("a co-op shop", "a co/op shop"), ("set name=value here", "set name/value here")],
)
def test_a_hyphen_slash_or_equals_sign_within_a_word_is_none(one: str, other: str) -> None:
    assert difference(row(one), row(other)) is None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("✗", "1/2"),
        ("★★★★", "1/2"),
        ("Colour: #00ff00", "Colour: #0000ff"),
        ("it weighs 5 kg", "a length of 7 m, folded"),
    ],
)
def test_a_fact_in_the_place_of_one_in_other_words_is_a_difference(one: str, other: str) -> None:
    around = "first line, 12 pages\n{}\nlast line"
    pair = row(around.format(one)), row(around.format(other))
    both = difference(*pair, FEW_PLACES), difference(*pair[::-1], FEW_PLACES)
    assert both == ("number or symbol", "number or symbol")
    assert difference(*pair, FEW_PLACES + 1) is None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("the concert is on 5 Jan. 2027 in town", "the concert is on 6 May 2027 in town"),
        ("we open at 9 a.m. for 20 guests", "we open at 10:30 for 20 guests"),
        ("it has 3 rooms; and 70 square metres", "it has 4 rooms and 70 square metres"),
        ("with 6 rooms, and 70 square metres", "with 7 rooms: and 70 square metres"),
        ("listed under No. 5 of 2026", "listed under case 6 of 2026"),
        ("for 19! and 3 more", "for 20 and 3 more"),
    ],
)
def test_a_number_that_changes_with_the_end_of_its_sentence_is_a_difference(
    one: str, other: str
) -> None:
    pair = row(f"{TEXT}\n{one}\n{TEXT}"), row(f"{TEXT}\n{other}\n{TEXT}")
    both = difference(*pair, FEW_PLACES), difference(*pair[::-1], FEW_PLACES)
    assert both == ("number or symbol", "number or symbol")


def test_a_fact_more_beside_one_whose_words_changed_is_one_whatever_its_sentence() -> None:
    pair = row("it weighs 5 kg"), row("a length of 5 kg\nand 7 more")
    assert difference(*pair, FEW_PLACES) == "number or symbol"
    assert difference(*pair, FEW_PLACES + 1) is None


def test_the_same_fact_in_other_words_is_none() -> None:
    pair = row("the lot weighs 5 kg here"), row("that lot has about 5 kg left")
    assert difference(*pair, FEW_PLACES) in (None, "word")


def test_one_sided_facts_count_where_all_else_is_equal() -> None:
    plain, plus = row("grade A by hand"), row("grade A+ by hand")
    assert difference(plain, plus, 2) == "number or symbol"
    assert difference(plain, plus, 3) is None
    is_, is_not = row("it is waterproof"), row("it isn't waterproof")
    assert difference(is_, is_not, 16) == "negation"
    assert difference(is_, is_not, 17) is None


@pytest.mark.parametrize(
    ("said", "denied"),
    [
        ("produkt nadaje się do zmywarki", "produkt nie nadaje się do zmywarki"),
        ("oferta z gwarancją", "oferta bez gwarancji"),
        ("bu ürün suya dayanıklı", "bu ürün suya dayanıklı değil"),
        ("depoda stok var", "depoda stok yok"),
        ("هذا المنتج مقاوم للماء", "هذا المنتج غير مقاوم للماء"),
        ("يمكن إرجاعه", "لا يمكن إرجاعه"),
        ("המוצר עמיד במים", "המוצר לא עמיד במים"),
        ("יש מלאי", "אין מלאי"),
        ("यह पानी में सुरक्षित है", "यह पानी में सुरक्षित नहीं है"),
        ("चीनी के साथ", "बिना चीनी"),
        ("สินค้านี้ กันน้ำ", "สินค้านี้ ไม่ กันน้ำ"),
        ("o produto é à prova de água", "o produto não é à prova de água"),
        ("mit einem Vertrag", "mit keinem Vertrag"),
        ("varan tål vatten", "varan tål inte vatten"),
        ("varen tåler vand", "varen tåler ikke vand"),
        ("a termék vízálló", "a termék nem vízálló"),
        ("tuote kestää vettä", "tuote ei kestää vettä"),
        ("produsul este etanș", "produsul nu este etanș"),
        ("το προϊόν είναι αδιάβροχο", "το προϊόν δεν είναι αδιάβροχο"),
        ("με εγγύηση", "χωρίς εγγύηση"),
        ("товар є водостійким", "товар не є водостійким"),
        ("sản phẩm chịu nước", "sản phẩm không chịu nước"),
        ("produk ini tahan air", "produk ini tidak tahan air"),
        ("방수 됩니다", "방수 안 됩니다"),
        ("این کالا ضد آب است", "این کالا ضد آب نیست"),
        ("یہ پانی میں محفوظ ہے", "یہ پانی میں محفوظ نہیں ہے"),
        ("ürün suya davamlıdır", "ürün suya davamlı deyil"),
        ("этот товар бар", "этот товар жоқ"),
    ],
)
def test_negations_of_many_languages_count(said: str, denied: str) -> None:
    around = "first line\n{}\nlast line"
    pair = row(around.format(said)), row(around.format(denied))
    assert difference(*pair, 16) == difference(*pair[::-1], 16) == "negation"


def test_facts_that_changed_places_count_where_hardly_more_differs() -> None:
    one = row("the result\nHome\n3\nAway\n1\nof the match")
    other = row("the result\nHome\n1\nAway\n3\nof the match")
    assert difference(one, other, SWAPPED) == "number or symbol"
    assert difference(one, other, SWAPPED + 1) is None
    assert difference(one, one, 0) is None


def test_a_negation_is_told_by_the_word_after_it() -> None:
    one = row("you may not call it\nand it holds")
    assert difference(one, row("you may call, not it\nand it holds"), 16) == "negation"
    assert difference(one, row("that is why they may not call it now\nand it holds"), 16) is None
    assert difference(one, row("you may call it\nand it may not hold"), 16) == "negation"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Colour: red", "Colour: blue"),
        ("Weight: some kg", "Weight: some lb"),
        ("Part aa", "Part bb"),
        ("Sold out", "In stock"),
        ("It seats few people", "It seats many people"),
        ("музей открыт", "музей закрыт"),
        ("共三人", "共四人"),
        ("有货", "预售"),
        ("営業中", "定休日"),
        ("김민수", "김민지"),
        ("محمد", "محمود"),
        ("เปิด", "เต็ม"),
        ("本书由王小明先生翻译为中文出版", "本书由李大海先生翻译为中文出版"),
        ("この商品は東京から発送します", "この商品は大阪から発送します"),
    ],
)
def test_another_word_in_a_brief_line_is_a_difference(one: str, other: str) -> None:
    one, other = f"{TEXT}\n{one}\n{TEXT}", f"{TEXT}\n{other}\n{TEXT}"
    assert difference(row(one), row(other), FEW_PLACES) == "word"
    assert difference(row(one), row(other), FEW_PLACES + 1) is None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("authorizers", "authorizors"),
        ("provide a usename", "provide a username"),
        ("modularised", "modularized"),
        ("so it is new", "so it is as new"),
        (f"{TEXT} is red today", f"{TEXT} is blue today"),
    ],
)
def test_other_spellings_added_words_and_other_words_of_a_text_are_none(
    one: str, other: str
) -> None:
    one, other = f"{TEXT}\n{one}\n{TEXT}", f"{TEXT}\n{other}\n{TEXT}"
    assert difference(row(one), row(other), FEW_PLACES) is None


def rewording(one: str, other: str, n_differing: float = TWO_PLACES) -> int:
    """What of a page whose lines are all of templates is reworded, beside another."""
    first, second = row(one, are_own=False), row(other, are_own=False)
    assert difference(first, second, FEW_PLACES) is None
    (found,) = reworded(first, second.reshape(1, -1), np.array([n_differing], float)).tolist()
    return found


@pytest.mark.parametrize(
    ("one", "other", "found"),
    [
        ("In stock", "Sold out", REPLACED),
        ("Sold out", "Available", REPLACED),
        ("Availability: Sold out", "Availability: Available again", REPLACED),
        (f"Sold out\n{TEXT}\nSold out", f"Available\n{TEXT}\nAvailable", REPLACED),
        ("Home: red\nAway: blue", "Home: blue\nAway: red", REPLACED),
        ("Home\nred\nAway\nblue", "Home\nblue\nAway\nred", REPLACED),
        ("Ann\nBob\nEve", "Ann\nEve\nBob", REPLACED),
        ("Ann beat Bob", "Bob beat Ann", REPLACED),
        ("Home\nShop", "Home\nShop\nNew", OTHERWISE),
        ("Home\nShop\nFresh", "Home\nShop", OTHERWISE),
        ("Home\nShop\nFresh", "Home\nShop\nFresh\nFresh", OTHERWISE),
        ("so we are all of us here", "so we are all of us back here again", OTHERWISE),
    ],
)
def test_brief_lines_of_templates_are_reworded_by_other_words_and_by_more(
    one: str, other: str, found: int
) -> None:
    in_another_order = sorted(one.split()) == sorted(other.split())
    one, other = f"{TEXT}\n{one}\n{TEXT}", f"{TEXT}\n{other}\n{TEXT}"
    assert rewording(one, other) == rewording(other, one) == found
    assert rewording(one, other, TWO_PLACES + 1) == (found if in_another_order else 0)


STEPS = [f"{step} before you go on with the next of the steps" for step in ("Cut", "Fry", "Stir")]


@pytest.mark.parametrize("between", ["", "\nDetails", "\nBuy\nDetails", f"\n{TEXT}"])
@pytest.mark.parametrize("entries", [["Ajax", "Celtic", "Porto", "Lille"], STEPS])
def test_lines_in_another_order_reword_a_page_however_much_differs(
    entries: list[str], between: str
) -> None:
    first, *rest, last = entries
    one, other = (
        "".join(f"{entry}{between}\n" for entry in order)
        for order in ([first, *rest, last], [first, last, *rest])
    )
    assert rewording(one, other, 500) == rewording(other, one, 500) == REPLACED
    assert not rewording(one, one, 0)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (
            "she carried 12 letters and he carried some",
            "she carried some letters and he carried 12",
        ),
        (
            "the small one is not meant, the large one is",
            "the small one is, the large one is not meant",
        ),
        ("the order was Ajax, Porto, Celtic, Lille", "the order was Ajax, Celtic, Porto, Lille"),
    ],
)
def test_the_same_words_in_another_order_reword_a_page(one: str, other: str) -> None:
    one, other = f"{TEXT} {one} {TEXT}", f"{TEXT} {other} {TEXT}"
    assert rewording(one, other, 500) == rewording(other, one, 500) == REPLACED
    assert not rewording(one, one, 0)


def test_a_long_line_more_is_no_other_order() -> None:
    one = "\n".join([TEXT, *STEPS])
    for other in ("\n".join([TEXT, *STEPS, TEXT]), "\n".join([STEPS[1], TEXT, STEPS[2]])):
        assert rewording(one, other, 500) != REPLACED


def test_the_same_facts_in_another_order_reword_a_page_however_much_differs() -> None:
    first, *rest = (
        row(f"tea: {a} kr\n{TEXT}\nmilk: {b} kr") for a, b in ((19, 24), (24, 19), (24, 19))
    )
    found = reworded(first, np.array(rest), np.array([500.0, 0.0])).tolist()
    assert found == [REPLACED, REPLACED]
    assert not reworded(rest[0], rest[1].reshape(1, -1), np.zeros(1)).any()


@pytest.mark.parametrize(
    ("one", "other"),
    [("the authorizers", "the authorizors"), ("Anna Müller", "Anna Muller"), ("Smith", "Smyth")],
)
def test_a_word_spelt_in_another_way_is_not_replaced(one: str, other: str) -> None:
    one, other = f"{TEXT}\n{one}\n{TEXT}", f"{TEXT}\n{other}\n{TEXT}"
    assert rewording(one, other) == rewording(other, one) == OTHERWISE


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Free parking in front of the house ✔", "Free parking in front of the house ✘"),
        ("Average customer rating: ★★★☆☆", "Average customer rating: ★★☆☆☆"),
        (f"{TEXT} within 3 days", f"{TEXT} within 5 days"),
        (f"{TEXT} and it is not red", f"{TEXT} and it is never red"),
        (f"{TEXT} 4\n{TEXT} 5", f"{TEXT} 5\n{TEXT} 4"),
    ],
)
def test_another_fact_in_lines_of_templates_rewords_a_page(one: str, other: str) -> None:
    assert rewording(one, other) == rewording(other, one) == REPLACED


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (f"{TEXT}\n{TEXT} and it is not red", f"{TEXT}\n{TEXT} and it is now red"),
        (
            f"{TEXT}\nall of it is made by hand in our shop today",
            f"{TEXT}\nall of it is ★ made by hand in our shop today",
        ),
    ],
)
def test_a_fact_more_in_lines_of_templates_rewords_a_page_otherwise(one: str, other: str) -> None:
    assert rewording(one, other, 0) == rewording(other, one, 0) == OTHERWISE


def test_another_title_or_heading_of_a_template_rewords_a_page_otherwise() -> None:
    def page(title: str, heading: str) -> U64Array:
        return row(TEXT, title, heading, are_own=False)

    first = page("Available | Shop", "Open for guests")
    rest = page("Sold out | Shop", "Open for guests"), page("Available | Shop", "Closed now")
    found = reworded(first, np.array([*rest, first]), np.zeros(3)).tolist()
    assert found == [OTHERWISE, OTHERWISE, 0]


def test_words_of_long_lines_reword_nothing() -> None:
    assert not rewording(f"{TEXT} is red today", f"{TEXT} is blue today")


def test_two_pairs_of_characters_count_as_one_word_of_a_line() -> None:
    line = "这本书由先生翻译为中文出版了去年"
    assert rewording(f"红{line}", f"蓝{line}") == REPLACED
    assert not rewording(f"红{line}又", f"蓝{line}又")


def test_a_title_spelt_apart_is_the_same() -> None:
    assert difference(row("", "On Red Hat systems"), row("", "On RedHat systems")) is None
    assert difference(row("", "Part 1 2"), row("", "Part 12")) == "title"


def test_heads_differ_where_each_has_what_the_other_lacks() -> None:
    assert difference(row("", "Blue | Shop"), row("", "Red | Shop")) == "title"
    assert difference(row("", "T", "Blue"), row("", "T", "Red")) == "heading"
    assert difference(row("", "Blue | Shop"), row("", "Blue")) is None
    assert difference(row("", "Blue"), row("")) is None


@given(st.text(st.sampled_from("ab5-£.,:; '\n\u00e9²★"), max_size=60))
def test_any_text_has_facts_that_equal_its_own(text: str) -> None:
    facts = exact_text_and_facts(text)[1]
    assert len(facts.lines) == len(facts.masks) == len(facts.values)
    assert len(facts.negation_lines) == len(facts.negations)
    stored = row(text)
    assert stored.shape == (FACT_WORDS,)
    assert difference(stored, row(text), 0) is None


@dataclass(frozen=True)
class Product:
    """A product page of a shop by rule."""

    title: str
    price: str
    isbn: str
    sku: str
    stock: int
    rating: int
    blurb: tuple[str, ...]

    def text(self) -> str:
        menu = [f"shelf {name}" for name in "abcdefghijklmnopqrstuvwxyz"]
        return "\n".join(
            [
                *("Books to buy", *menu, self.title, self.price),
                f"In stock ({self.stock} available)",
                *("★" * self.rating, "Add to basket", *self.blurb),
                *("Product information", "ISBN", self.isbn, "SKU", self.sku, "Tax", "£0.00"),
                *("This is a shop for tests only.", "Terms", "© 2026 Books"),
            ]
        )


def products(n: int) -> list[Product]:
    chance = random.Random(7)
    begins, ends = ("ster", "mol", "kan", "vor", "tel", "gri"), ("ing", "ed", "er", "al")
    vocabulary = [begin + end for begin in begins for end in ends]

    def words(n: int) -> str:
        return " ".join(chance.choices(vocabulary, k=n))

    return [
        Product(
            words(3),
            f"£{chance.randint(9, 49)}.99",
            f"978{chance.randrange(10**10):010}",
            f"{chance.choice('ABC')}{chance.randint(100, 999)}-{chance.randint(10, 99)}",
            chance.randint(1, 30),
            chance.randint(1, 5),
            tuple(words(chance.randint(20, 60)) for _ in range(4)),
        )
        for _ in range(n)
    ]


CHANGES: dict[str, Callable[[Product], Product]] = {
    "price": lambda p: replace(p, price=p.price.replace(".99", ".49")),
    "currency": lambda p: replace(p, price=p.price.replace("£", "$")),
    "ISBN": lambda p: replace(p, isbn=p.isbn[::-1]),
    "SKU": lambda p: replace(p, sku=p.sku + "7"),
    "number": lambda p: replace(p, stock=p.stock + 31),
    "symbol": lambda p: replace(p, rating=p.rating % 5 + 1),
}


def kinds(changed: Callable[[Product], Product], **rules: str) -> list[str]:
    """Of 100 products with a fact changed, decided after they were read unchanged."""
    index = load_index("permuted", blocks=7, distance=6)
    shop = Detector(load_engine("auto"), index, **rules)  # type: ignore[arg-type]
    found = []
    for i, page in enumerate([*products(100), *map(changed, products(100))]):
        decision = shop.decide(shop.read(f"http://shop.example/{i}", page.text()))
        found.append(decision.kind)
    return found[100:]


@pytest.mark.parametrize("change", CHANGES)
def test_products_that_differ_in_one_fact_are_kept(change: str) -> None:
    found = kinds(CHANGES[change])
    assert found.count("near") + found.count("exact") == 0
    assert found.count("near-but-differs") > 30


def test_facts_can_be_ignored() -> None:
    assert kinds(CHANGES["price"], facts="ignore").count("near") > 30


DATES = ("5 Jan. 2027", "6 May 2027", "7 June 2027", "8 Feb. 2027")


def test_a_concert_is_kept_for_each_date_whether_or_not_its_month_has_a_full_stop() -> None:
    hall = Detector(load_engine("auto"), load_index("permuted", blocks=7, distance=6))
    line = "The concert of the town band will take place on {} in the hall of the castle at 20"
    around = f"{prose('above')}\n{line}\n{prose('below')}"
    texts = [*map(prose, range(10)), *map(around.format, DATES)]
    pages = [hall.read(f"http://hall.example/{i}", text) for i, text in enumerate(texts)]
    found = [hall.decide(page).kind for page in pages]
    assert found == ["new"] * 11 + ["near-but-differs"] * 3
