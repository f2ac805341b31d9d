"""Under NEARDUP_RECRAWL ordinary spiders lose nothing that has changed since the last visit.

What has changed is what a spider brings without the plugin, and did not at the visit before.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from crawls import ADDONS
from mock_site import running_site
from ordinary_spiders.cases import Case
from ordinary_spiders.changes import CHANGES
from ordinary_spiders.crawl import run
from ordinary_spiders.site import OrdinarySite


@pytest.fixture(scope="module")
def site() -> Iterator[OrdinarySite]:
    with running_site(OrdinarySite) as site:
        yield site


@pytest.mark.parametrize("name", CHANGES)
def test_nothing_is_lost_that_changed_between_two_visits(
    name: str, site: OrdinarySite, tmp_path: Path
) -> None:
    spider, build = CHANGES[name]
    case = Case(spider, lambda site, root: None)
    recrawls = {"NEARDUP_STATE_DIR": str(tmp_path / "state"), "NEARDUP_RECRAWL": "changed"}
    plain, compared = [], []
    for visit in range(2):
        build(site, f"/{name}", visit)
        plain.append(run(case, site, tmp_path / "files", {}))
        compared.append(run(case, site, tmp_path / "files", ADDONS, **recrawls))
    news = {page: items - plain[0].of(page) for page, items in plain[1].pages.items()}
    assert any(news.values()), "the site says nothing new"
    lost = {page: items - compared[1].of(page) for page, items in news.items()}
    assert not {page: items for page, items in lost.items() if items}
