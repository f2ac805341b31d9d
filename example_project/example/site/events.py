"""An endless calendar: every month links to the next and the last, nearly all are empty."""

import re
from calendar import month_name, monthrange
from datetime import date

from example.site.frame import framed
from example.site.page import Kind, Page, link, prose
from example.site.writer import Writer

MONTH_PATH = re.compile(r"/events/\?month=(\d{4})-(0[1-9]|1[0-2])")
BUSY = (date(2026, 4, 1), date(2026, 5, 1), date(2026, 6, 1))
YEARS = range(1000, 9000)
EMPTY = "No events this month. Use the links to turn to the next month or back to the last one."


def month_page(seed: int, path: str) -> Page | None:
    """The page of a month, None for any other path. All empty months show the same: nothing."""
    match = MONTH_PATH.fullmatch(path)
    if match is None or int(match[1]) not in YEARS:
        return None
    month = date(int(match[1]), int(match[2]), 1)
    title = f"Events in {month_name[month.month]} {month.year}"
    if month in BUSY:
        html = framed(title, programme(seed, month) + turning(month))
        return Page(path, f"events/{month:%Y-%m}", Kind.OWN, html)
    html = framed(title, grid(month) + prose([EMPTY]) + turning(month))
    return Page(path, "events/none", Kind.MONTH, html)


def programme(seed: int, month: date) -> str:
    writer = Writer(("common", "news"), f"{seed} events {month}")
    days = sorted(writer.rng.sample(range(1, 29), 8))
    texts = writer.paragraphs(len(days), 3)
    return "".join(f"<h2>{day}</h2>{prose([text])}" for day, text in zip(days, texts, strict=True))


def grid(month: date) -> str:
    weekday, n_days = monthrange(month.year, month.month)
    cells = ["<td></td>"] * weekday + [f"<td>{day}</td>" for day in range(1, n_days + 1)]
    rows = (cells[start : start + 7] for start in range(0, len(cells), 7))
    return "<table>" + "".join(f"<tr>{''.join(row)}</tr>" for row in rows) + "</table>"


def turning(month: date) -> str:
    """Links to the month before and the month after."""
    before = date(month.year - (month.month == 1), (month.month - 2) % 12 + 1, 1)
    after = date(month.year + (month.month == 12), month.month % 12 + 1, 1)
    return (
        f"<p>{link(f'/events/?month={before:%Y-%m}', 'Previous month')} "
        f"{link(f'/events/?month={after:%Y-%m}', 'Next month')}</p>"
    )
