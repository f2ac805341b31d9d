"""Pages that differ in what they show, not in what they say: images, videos, documents."""

import zlib
from io import BytesIO
from typing import ClassVar

from mock_site import PNG, Reply, prose

from .cases import IndexSpider, case
from .site import OrdinarySite, blurb, product, template


def gallery(site: OrdinarySite, root: str) -> None:
    for n in range(40):
        image = Reply(PNG + str(n).encode(), content_type="image/png")
        site.pages[f"{root}/img/{n}.png"] = image
    photo = "<figure><img src='{root}/img/{n}.png' alt='photo'></figure>"
    site.add_all(
        root,
        {f"{n}": template("Gallery", photo.format(root=root, n=n) + blurb(40)) for n in range(40)},
    )


@case(gallery)
class GalleryFilesSpider(IndexSpider):
    name = "gallery-files"
    custom_settings: ClassVar = {"ITEM_PIPELINES": {"scrapy.pipelines.files.FilesPipeline": 1}}

    def parse_page(self, response):
        sources = response.css("figure img::attr(src)").getall()
        yield {"page": response.url, "file_urls": [response.urljoin(src) for src in sources]}


def notices(site: OrdinarySite, root: str) -> None:
    """Long notices in pairs that differ in the court that they name, on a line of its own."""
    site.add_all(
        root,
        {
            f"{n}.html": template(
                f"Notice {n // 2}",
                f"{prose_of(n // 2, 5)}<p>Court of {('Leeds', 'York')[n % 2]}</p>"
                f"{prose_of(n // 2 + 100, 5)}",
            )
            for n in range(20)
        },
    )


def prose_of(n: int, n_paragraphs: int) -> str:
    return "".join(f"<p>{prose(f'{n} {at}', 60)}</p>" for at in range(n_paragraphs))


class ArchiveSpider(IndexSpider):
    """Has each page that it reads stored as a file, and says nothing else of it."""

    field = "file_urls"
    custom_settings: ClassVar = {"ITEM_PIPELINES": {"scrapy.pipelines.files.FilesPipeline": 1}}

    def parse_page(self, response):
        yield {self.field: [response.url]}


@case(notices)
class PageArchiveSpider(ArchiveSpider):
    name = "archive-of-pages"


@case(notices)
class NamedArchiveSpider(ArchiveSpider):
    name = "archive-of-pages-by-a-named-field"
    field = "sources"
    custom_settings: ClassVar = ArchiveSpider.custom_settings | {"FILES_URLS_FIELD": "sources"}


def pictures(site: OrdinarySite, root: str) -> None:
    from PIL import Image

    for n in range(12):
        buffer = BytesIO()
        Image.new("RGB", (8, 8), (20 * n, 255 - 20 * n, 0)).save(buffer, "PNG")
        site.pages[f"{root}/img/{n}"] = Reply(buffer.getvalue(), content_type="image/png")
    site.add_all(
        root,
        {
            f"{n}": template("Photo of the day", f'<img id="photo" srcset="{root}/img/{n} 2x">')
            for n in range(12)
        },
    )


@case(pictures, needs=("PIL",))
class GalleryImagesSpider(IndexSpider):
    name = "gallery-images"
    custom_settings: ClassVar = {"ITEM_PIPELINES": {"scrapy.pipelines.images.ImagesPipeline": 1}}

    def parse_page(self, response):
        source = response.css("#photo::attr(srcset)").get().split()[0]
        yield {"image_urls": [response.urljoin(source)]}


def documents(site: OrdinarySite, root: str) -> None:
    link = '<a href="{root}/files/{n}.pdf">Download as PDF</a><video><source src="/v/{n}"></video>'
    site.add_all(
        root,
        {
            f"notice{n}.html": template("Notice", link.format(root=root, n=zlib.crc32(b"%d" % n)))
            for n in range(30)
        },
    )


@case(documents)
class DocumentLinkSpider(IndexSpider):
    name = "document-links"

    def parse_page(self, response):
        yield {
            "title": response.css("h1::text").get(),
            "pdf": response.css("main a::attr(href)").get(),
        }


@case(documents)
class VideoSourceSpider(IndexSpider):
    name = "video-sources"

    def parse_page(self, response):
        yield {"video": response.urljoin(response.css("source::attr(src)").get())}


def placeholders(site: OrdinarySite, root: str) -> None:
    site.pages[f"{root}/none.png"] = Reply(PNG, content_type="image/png")
    site.add_all(
        root,
        {
            f"{n}": template(
                "Lamp", f'<img src="{root}/none.png"><b>{product(n)["price"]}</b>{blurb(150)}'
            )
            for n in range(20)
        },
    )


@case(placeholders)
class PlaceholderImageSpider(IndexSpider):
    """All products share one picture, which is downloaded once."""

    name = "placeholder-image"
    custom_settings: ClassVar = {"ITEM_PIPELINES": {"scrapy.pipelines.files.FilesPipeline": 1}}

    def parse_page(self, response):
        picture = response.urljoin(response.css("img::attr(src)").get())
        yield {"price": response.css("b::text").get(), "file_urls": [picture]}
