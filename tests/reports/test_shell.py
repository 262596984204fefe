"""The shell of pages: escaping, tables, and nothing from elsewhere."""

import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest

from romdp.core.errors import InvalidInputError, WriteError
from romdp.reports import shell
from romdp.reports.learning import _picture, _round_values

EVIL = '<img src=x onerror="alert(1)">&'


class Reader(HTMLParser):
    """Collects tags with their attributes, and the text outside of scripts."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.words, self.inside, self.open = [], [], None, []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "link", "input"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("script", "style"):
            self.words.append(data)


def test_text_is_escaped_wherever_it_goes():
    parts = [
        shell.element("p", EVIL, title=EVIL),
        shell.section("s", EVIL, EVIL, note=EVIL),
        shell.table([EVIL], [[EVIL]], [{"data_x": EVIL}]),
        shell.facts({EVIL: EVIL, "list": [EVIL]}),
        shell.folded(EVIL, EVIL),
        shell.alert(EVIL),
    ]
    page = shell.document(EVIL, *parts, subtitle=EVIL, data={EVIL: EVIL + "</script>"})
    assert "<img" not in page.split("<script>")[0]
    reader = Reader(page)
    assert not reader.open  # every element is closed
    assert "img" not in {tag for tag, _ in reader.tags}
    assert "".join(reader.words).count(EVIL) >= 10
    (attributes,) = [found for tag, found in reader.tags if tag == "p" and "title" in found]
    assert attributes["title"] == EVIL


def test_columns_of_numbers_are_set_to_the_right():
    text = shell.table(["a", "b"], [[1, "x"], [None, 2.5], [np.float64(3), True]])
    assert text.count('<td class="number">') == 3 + 1
    assert '<th scope="col" class="number">a</th>' in text
    assert '<td class="number">-</td>' in text
    assert "<td>True</td>" in text


def test_a_table_wants_as_many_cells_as_headings():
    with pytest.raises((ValueError, IndexError)):
        shell.table(["a", "b"], [[1]])


def test_data_survives_the_way_to_the_page():
    data = {
        "whole": np.arange(3),
        "real": np.array([0.123456789, np.nan, -np.inf, 2.0, 1e300]),
        "none": None,
        "yes": np.bool_(True),
        "words": "</script><!-- \u2028 é",
        "pair": (1, 2),
    }
    text = shell.as_json(data)
    assert "</" not in text
    assert "<!--" not in text
    assert "\u2028" not in text
    assert json.loads(text) == {
        "whole": [0, 1, 2],
        "real": [0.123457, None, None, 2, 1e300],
        "none": None,
        "yes": True,
        "words": "</script><!-- \u2028 é",
        "pair": [1, 2],
    }


def test_a_page_asks_for_nothing_from_elsewhere():
    page = shell.document("t", data={})
    reader = Reader(page)
    for tag, attributes in reader.tags:
        assert "src" not in attributes, tag
        assert attributes.get("href", "data:,") == "data:,"
    assert not re.search(r"@import|url\(", shell.asset("shell.css"))
    (policy,) = [a["content"] for _, a in reader.tags if "http-equiv" in a]
    assert policy.startswith("default-src 'none'")
    assert "http" not in policy


def test_a_page_without_plotly_says_what_to_install(monkeypatch):
    monkeypatch.setattr(shell, "find_spec", lambda name: None)
    with pytest.raises(InvalidInputError, match="pip install"):
        shell.document("t")


def test_pages_are_written_with_the_directories_above(tmp_path):
    path = shell.write_page(tmp_path / "a" / "b.html", "é")
    assert path.read_text(encoding="utf-8") == "é"
    with pytest.raises(WriteError, match=r"cannot make .*b\.html"):
        shell.write_page(path / "c.html", "")


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0, 33, [0, 10, 20, 30]),
        (-0.13, 0.02, [-0.1, -0.05, 0]),
        (-200.5, -199.5, [-200.4, -200.2, -200, -199.8, -199.6]),
        (0, 5000, [0, 1000, 2000, 3000, 4000, 5000]),
        (7.1, 7.9, [7.2, 7.4, 7.6, 7.8]),
    ],
)
def test_axes_show_round_numbers(low, high, expected):
    assert _round_values(low, high) == pytest.approx(expected)


def test_groups_are_counted_in_whole_numbers():
    assert _round_values(10.5, 11.5, 1.0) == [11]
    assert _round_values(0, 33, 1.0) == [0, 10, 20, 30]


def test_what_came_before_anything_was_learned_does_not_set_the_axis():
    step = np.arange(1, 101)
    curve = np.where(step < 8, -1e6, step / 100.0)
    for dots in ((None, None), (step, curve)):
        page = _picture(step, curve, *dots, "return")
        assert ">0.8</text>" in page
        assert "1,000,000" not in page
    flat = _picture(step, np.where(step < 8, 0.0, 1.0), None, None, "return")
    assert ">0.2</text>" in flat  # all later values are equal: then all values are shown
