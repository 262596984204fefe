"""A web shop that does not exist: 2,000 pages, 12 hidden intents, 5 offers, rewards in euros.

``python webshop.py log.parquet`` writes its log. The truth stays in `Shop`, for scoring only.
"""

import sys
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import romdp

OFFERS = ("none", "coupon", "free shipping", "gift wrap", "chat")
COSTS = np.array([0.0, 2.0, 1.5, 0.8, 1.2])  # euros, whenever an offer is made
SECTIONS = ("shoes", "coats", "bags", "sale", "help", "brands", "stories", "gifts")
N_INTENTS, N_PAGES = 12, 2_000


@dataclass(frozen=True)
class Shop:
    """The truth: what visitors want, what that makes them do, which pages they then look at."""

    moves: np.ndarray  # [intent, offer, next intent], while the visit lasts
    leaves: np.ndarray  # [intent, offer]: the chance that the visit ends
    buys: np.ndarray  # [intent, offer]: the chance to buy
    basket: np.ndarray  # [intent]: mean price of what is then bought, in euros
    arrives: np.ndarray  # [intent]: how visits begin
    intent: np.ndarray  # [page]: the one intent in which it is looked at
    popularity: np.ndarray  # [page]: within its intent
    names: np.ndarray  # [page]

    @property
    def euros(self) -> np.ndarray:
        """Mean earning of every intent and offer."""
        return self.buys * self.basket[:, None] - COSTS

    def world(self, low: float, high: float) -> romdp.ROMDP:
        """Return the shop as a ROMDP, visit after visit, with rewards scaled from [low, high]."""
        ends = self.leaves[:, :, None]
        transition = (1 - ends) * self.moves + ends * self.arrives
        emission = np.zeros((N_INTENTS, N_PAGES))
        emission[self.intent, np.arange(N_PAGES)] = self.popularity
        return romdp.ROMDP(transition, (self.euros - low) / (high - low), emission)


def open_shop(seed: int = 7) -> Shop:
    """Draw a shop."""
    rng = np.random.default_rng(seed)
    habit = rng.dirichlet(np.full(N_INTENTS, 0.3), N_INTENTS)
    swayed = rng.dirichlet(np.full(N_INTENTS, 0.3), (N_INTENTS, len(OFFERS)))
    intent = rng.choice(N_INTENTS, N_PAGES, p=rng.dirichlet(np.full(N_INTENTS, 5.0)))
    popularity = 1 / (10 + rng.permutation(N_PAGES))  # few pages are looked at often
    popularity /= np.bincount(intent, popularity)[intent]
    sections = rng.choice(SECTIONS, N_PAGES)  # how the shop sorts its pages: no help
    return Shop(
        moves=0.5 * habit[:, None] + 0.5 * swayed,
        leaves=rng.uniform(0.02, 0.15, (N_INTENTS, len(OFFERS))),
        buys=np.clip(rng.beta(0.6, 3.0, (N_INTENTS, 1)) + rng.normal(0, 0.06, (1, 5)), 0.01, 0.6)
        * rng.uniform(0.4, 1.6, (N_INTENTS, len(OFFERS))),
        basket=rng.uniform(15, 60, N_INTENTS),
        arrives=rng.dirichlet(np.full(N_INTENTS, 0.5)),
        intent=intent,
        popularity=popularity,
        names=np.array([f"/{s}/{i:04d}" for i, s in enumerate(sections)]),
    )


def staff(pages: np.ndarray, day: np.ndarray, shop: Shop, rng: np.random.Generator) -> np.ndarray:
    """Choose offers as the shop did: hardly any, later by section, always some by chance."""
    by_chance = rng.integers(0, len(OFFERS), len(pages))
    by_chance[(by_chance == 4) & (day < 88)] = 0  # the chat opened two days ago
    sections = np.array([name.split("/")[1] for name in shop.names])
    rule = np.select([sections == "sale", sections == "gifts"], [1, 3], 2)
    habit = np.where(day < 45, 0, rule[pages])  # the rule came in the middle
    return np.where(rng.random(len(pages)) < 0.4, by_chance, habit)


def keep_log(shop: Shop, n_visits: int = 20_000, seed: int = 0) -> pa.Table:
    """Write down 90 days of visits: all walk through the shop at once, page by page."""
    rng = np.random.default_rng(seed)
    order = np.argsort(shop.intent, kind="stable")
    chances = np.cumsum(shop.popularity[order])
    visit = np.arange(n_visits)
    day = np.sort(rng.integers(0, 90, n_visits))
    now = rng.choice(N_INTENTS, n_visits, p=shop.arrives)
    rows: list[tuple[np.ndarray, ...]] = []
    while len(visit):
        # Popularities sum to one in each intent: the page is where `now` plus a draw falls.
        page = order[np.searchsorted(chances, now + rng.random(len(visit))).clip(max=N_PAGES - 1)]
        offer = staff(page, day[visit], shop, rng)
        price = rng.gamma(8.0, shop.basket[now] / 8.0)
        bought = rng.random(len(visit)) < shop.buys[now, offer]
        euros = np.round(bought * price - COSTS[offer], 2)
        rows.append((visit, np.full(len(visit), len(rows)), page, offer, euros))
        stays = rng.random(len(visit)) >= shop.leaves[now, offer]
        laws = np.cumsum(shop.moves[now, offer], axis=1)
        now = (laws < rng.random((len(visit), 1))).sum(axis=1).clip(max=N_INTENTS - 1)[stays]
        visit = visit[stays]
    visit, click, page, offer, euros = (
        np.concatenate(column) for column in zip(*rows, strict=True)
    )
    line = np.lexsort((click, visit))
    return pa.table(
        {
            "day": day[visit[line]],
            "visit": visit[line],
            "click": click[line],
            "page": shop.names[page[line]],
            "offer": np.array(OFFERS)[offer[line]],
            "euros": euros[line],
        }
    )


if __name__ == "__main__":
    pq.write_table(keep_log(open_shop()), sys.argv[1])
