"""URLs of object storage are told without what only their owner may know."""

import pytest

pytest.importorskip("pyarrow", reason="the extra [dedup] is not installed")

from scrapy_neardup.errors import InputError
from scrapy_neardup.offline.file_systems import file_system, shown


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("s3://bucket/x", "s3://bucket/x"),
        ("s3://bucket/a@b", "s3://bucket/a@b"),
        ("s3://name@bucket/a@b", "s3://bucket/a@b"),
        ("s3a://KEY:SECRET@bucket/x?region=y", "s3a://bucket/x"),
        ("s3://KEY:SEC/RET@bucket/x", "s3://bucket/x"),
        ("s3://KEY:SEC@RET@bucket/x", "s3://bucket/x"),
        ("s3://KEY:SEC?RET@bucket/x?region=y", "s3://bucket/x"),
        ("s3://host:9000?secret=x", "s3://host:9000"),
        ("hdfs://host:8020/x?principal=nn/_HOST@REALM", "hdfs://host:8020/x"),
    ],
)
def test_a_url_is_shown_without_user_password_and_options(url: str, said: str) -> None:
    assert shown(url) == said


@pytest.mark.parametrize(
    "url",
    [
        "s3a://KEY:SECRET%zz@bucket/x",
        "s3://KEY:SECRET/SECRET@bucket/x",
        "s3://KEY:SECRET?SECRET@bucket/x",
        "s3://bucket/%zz?endpoint_override=SECRET",
    ],
)
def test_an_error_does_not_repeat_the_secrets_of_a_url(url: str) -> None:
    with pytest.raises(InputError, match="bucket") as raised:
        file_system(url)
    assert "SECRET" not in str(raised.value)
