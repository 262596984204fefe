"""The part of a model's page that shows what the states behind vectors look like."""

import base64
import struct
import zlib
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from romdp.core.arrays import Floats, Ints
from romdp.core.text import MOST_LISTED, count, number
from romdp.encoding.decoder import StateDecoder
from romdp.encoding.views import Encoding
from romdp.logs.model.checks import SURE_ENOUGH
from romdp.logs.model.latent import LatentModel
from romdp.reports.drawing import STATE_COLOURS, UNSEEN_COLOUR, Box, state_colour
from romdp.reports.model_data import go, more
from romdp.reports.shell import Html, element, join, section, table

BARS = "Bars: numbers in standard deviations from the mean of all."
_SMALLEST = 16  # numbers of a picture
_MOST_NAMED = 8  # columns of a table, beside others
_MOST_DIRECTIONS = 8
_STRENGTHS = 24
_WIDTH, _HEIGHT = 1160, 420  # of the map
_IN_WORDS = {
    "plain": "the vectors as they are",
    "standard": "every number scaled to variance one",
    "white": "whitened vectors",
    "actions": "the few directions that actions and rewards depend on",
    "apart": "a space in which codes lie clearly apart",
}


def portrait_section(model: LatentModel) -> Html:
    """Show what each state looks like, how sure placements are, and where the codes lie."""
    decoder = model.decoder
    seen = None if decoder is None else decoder.portraits
    if decoder is None or seen is None:
        return Html("")
    places = model.states_of(range(len(seen.rows)))  # as the model numbers them
    column = model.columns.get("observation") or ""
    names = column.split(",") if "," in column else ()
    shown = (seen.means, seen.typical, seen.doubtful)
    show = drawing(
        min(float(vectors.min()) for vectors in shown),
        max(float(vectors.max()) for vectors in shown),
        np.average(seen.means, axis=0, weights=np.maximum(seen.rows, 1e-9)),
        seen.spread,
        names,
    )
    headings = names if len(names) <= _MOST_NAMED else ()
    most = np.argsort(-seen.rows, kind="stable")[:MOST_LISTED]
    listed = most[np.argsort(places[most], kind="stable")]
    rows = [
        [
            go(int(places[state])),
            int(seen.rows[state]),
            f"{seen.certainty[state]:.1%}",
            *(_rounded(seen.means[state], seen.spread) if headings else [show(seen.means[state])]),
            join(*(show(vector) for vector in seen.typical[state])),
            join(*(show(vector) for vector in seen.doubtful[state])),
        ]
        for state in listed
        if seen.rows[state] and places[state] >= 0
    ]
    means = [f"mean {name}" for name in headings] or ["mean"]
    looks = ["most typical", "most doubtful"]
    encoding = decoder.encoding
    scores = ", ".join(
        f"{name} {mean:.3f} ± {error:.3f}" for name, (mean, error) in encoding.scores.items()
    )
    unsure = int((seen.certainty[seen.rows > 0] < SURE_ENOUGH).sum())
    text = (
        f"Vectors of {count(encoding.n_features, 'number')}. The view that was taken is "
        f"{encoding.view}: {_IN_WORDS[encoding.view]}. How well each predicts held-out steps, in "
        f"nats per step: {scores}. "
        f"{unsure} of {len(rows)} states are less than {SURE_ENOUGH:.0%} sure on average. "
        + ("" if is_picture(encoding.n_features) else BARS)
        + (f" From left to right: {', '.join(headings)}." if headings else "")
    )
    return section(
        "looks",
        "What states look like",
        table(["state", "vectors", "certainty", *means, *looks], rows),
        more(int((seen.rows > 0).sum()) - len(rows)),
        element("h3", "The codes, coloured by state"),
        _map(decoder, places[seen.state_of_code]),
        element("h3", "What actions and rewards depend on"),
        _directions(decoder.encoding, names),
        note=text,
    )


def _rounded(means: Floats, spread: Floats) -> list[str]:
    """Write means to a hundredth of how much their numbers vary."""
    decimals = np.maximum(0, 2 - np.floor(np.log10(np.where(spread > 0, spread, 1.0)))).astype(int)
    pairs = zip(means.tolist(), decimals.tolist(), strict=True)
    return [number(round(mean, digits) + 0.0, digits) for mean, digits in pairs]


def looks_of(model: LatentModel) -> tuple[list[Html], str]:
    """Show a typical vector of each state of a model of a run, and say what bars mean."""
    if model.named or model.encoder is None:
        return [], ""
    codes = [
        int(np.argmax(np.where(model.partition.labels == state, model.visits, -1)))
        for state in range(model.n_states)
    ]
    found = {code: model.encoder.example(code) for code in codes}
    vectors = {code: vector.astype(float) for code, vector in found.items() if vector is not None}
    names = {code: element("span", model.encoder.name(code)) for code in codes}
    if not vectors:
        return [names[code] for code in codes], ""
    every = np.array(list(vectors.values()))
    show = drawing(float(every.min()), float(every.max()), every.mean(axis=0), every.std(axis=0))
    drawn = names | {code: show(vector) for code, vector in vectors.items()}
    return [drawn[code] for code in codes], "" if is_picture(every.shape[1]) else f" {BARS}"


def drawing(
    low: float, high: float, center: Floats, spread: Floats, names: Sequence[str] = ()
) -> Callable[[Floats], Html]:
    """Return what draws vectors: as a picture if so many numbers are a square, else as bars.

    Parameters
    ----------
    low, high
        The numbers that are black and white.
    center, spread
        The mean of all vectors, and the standard deviation of every number.
    names
        What the numbers are called; shown where the mouse points at a bar.
    """
    scale = np.where(spread > 0, spread, 1.0)

    def show(vector: Floats) -> Html:
        if is_picture(len(vector)):
            return _picture((vector - low) / max(high - low, 1e-300))
        return _profile((vector - center) / scale, vector, names)

    return show


def is_picture(d: int) -> bool:
    """Whether so many numbers are drawn as a picture, and not as bars."""
    return _side(d) is not None


def _side(d: int) -> tuple[int, int] | None:
    """Return side and colours of a square picture of so many numbers, None if it is none."""
    for colours in (1, 3):
        side = round((d / colours) ** 0.5)
        if d >= _SMALLEST and side * side * colours == d:
            return side, colours
    return None


def png(pixels: NDArray[np.uint8]) -> bytes:
    """Write a picture of shape (height, width) or (height, width, 3) as PNG."""
    height, width = pixels.shape[:2]
    lines = b"".join(b"\0" + row.tobytes() for row in np.ascontiguousarray(pixels))
    kind = 0 if pixels.ndim == 2 else 2

    def chunk(name: bytes, content: bytes) -> bytes:
        check = zlib.crc32(name + content)
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", check)

    head = struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0)
    body = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


def _picture(vector: Floats) -> Html:
    """Draw numbers between 0 and 1 as a square picture."""
    side, colours = _side(len(vector)) or (1, 1)
    shape = (side, side) if colours == 1 else (side, side, colours)
    pixels = (255 * np.clip(vector, 0, 1)).astype(np.uint8).reshape(shape)
    data = base64.b64encode(png(pixels)).decode()
    style = "width:48px;height:48px;image-rendering:pixelated;margin:1px"
    return Html(f'<img src="data:image/png;base64,{data}" style="{style}" alt="">')


def _profile(vector: Floats, numbers: Floats, names: Sequence[str]) -> Html:
    """Draw numbers, in standard deviations, as bars."""
    values = np.clip(vector[:MOST_LISTED], -3, 3)
    width = max(2, 48 // len(values))
    called = names if len(names) == len(vector) else [f"number {i}" for i in range(len(values))]
    bars = [
        _bar(width * i, 18, 6 * value, width - 0.5, f"{called[i]}: {numbers[i]:.3g}")
        for i, value in enumerate(values)
    ]
    wide = width * len(values)
    size, style = f"0 0 {wide} 36", "margin-right:2px"
    return element("svg", *bars, viewBox=size, width=wide, height=36, role="img", style=style)


def _bar(
    x: float, foot: float, tall: float, wide: float, hint: str, fill: str = STATE_COLOURS[0]
) -> Html:
    """Draw a bar up from its foot, or down where it is negative."""
    return Html(Box(x, foot - max(tall, 0), wide, abs(tall), fill, hint).svg())


def _map(decoder: StateDecoder, states: Ints) -> Html:
    """Draw the codes in the plane of their two largest principal components."""
    book = decoder.encoding.codebook
    weight = np.maximum(book.sizes, 1e-9)
    centered = book.points - np.average(book.points, axis=0, weights=weight)
    axes = np.linalg.svd(centered * np.sqrt(weight)[:, None], full_matrices=False)[2][:2]
    places = np.zeros((len(centered), 2))
    places[:, : len(axes)] = centered @ axes.T
    places -= places.min(axis=0)
    places /= np.maximum(places.max(axis=0), 1e-12)
    radii = 4 + 12 * np.sqrt(weight / weight.max())
    dots = []
    for code in np.argsort(-radii, kind="stable"):
        state = int(states[code])
        x, y = 16 + places[code] * (_WIDTH - 32, _HEIGHT - 32)
        words = f"code {code}: state {state}, {int(book.sizes[code]):,} vectors"
        dots.append(
            element(
                "circle",
                element("title", words),
                cx=f"{x:.1f}",
                cy=f"{_HEIGHT - y:.1f}",
                r=f"{radii[code]:.1f}",
                fill=state_colour(state),
                fill_opacity=0.7,
            )
        )
    size = f"0 0 {_WIDTH} {_HEIGHT}"
    drawn = element("svg", *dots, viewBox=size, style="width:100%;height:auto", role="img")
    known = np.unique(states[states >= 0])
    legend = [
        element(
            "span",
            element("i", class_="swatch", style=f"background:{state_colour(s)}"),
            s,
            class_="key",
        )
        for s in known[:MOST_LISTED].tolist()
    ]
    rest = f"and {len(known) - MOST_LISTED} more" if len(known) > MOST_LISTED else ""
    told = element("div", element("span", "state "), *legend, rest, class_="row")
    return element("div", drawn, told, class_="card")


def _directions(encoding: Encoding, names: Sequence[str]) -> Html:
    """Draw how strong the directions are beside those of noise, and what they weigh."""
    strengths = encoding.strengths[:_STRENGTHS]
    if not len(strengths) or not np.isfinite(encoding.noise):
        return element("p", "There were too few steps to tell.")
    top = max(float(strengths[0]), encoding.noise)
    fills = [STATE_COLOURS[0]] * encoding.rank + [UNSEEN_COLOUR] * len(strengths)
    bars = [
        _bar(12 * i, 60, 60 * strength / top, 9, f"{strength:.3g}", fills[i])
        for i, strength in enumerate(strengths)
    ]
    level = f"{60 * (1 - encoding.noise / top):.1f}"
    line = element("line", x1=0, x2=12 * len(bars), y1=level, y2=level, stroke="currentColor")
    width = 12 * len(bars)
    drawn = element("svg", *bars, line, viewBox=f"0 0 {width} 61", width=2 * width, role="img")
    text = f"Stronger than noise (the line): {count(encoding.rank, 'direction')}."
    shown: list[Html] = []
    if encoding.view == "actions":
        d = encoding.n_features
        weigh = drawing(-1.0, 1.0, np.zeros(d), np.full(d, 1 / 3), names)
        matrix = encoding.map.matrix[:, :_MOST_DIRECTIONS].T
        for weights in matrix:
            largest = max(float(np.abs(weights).max()), 1e-300)
            shown.append(weigh(weights / largest))
        text += " What the strongest weigh:"
    return element("div", drawn, element("p", text), *shown, class_="card")
