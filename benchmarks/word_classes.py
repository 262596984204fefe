"""Word classes: grouping a sequence without actions or rewards, against the exchange algorithm.

The sequence is the tokens of Python's own standard library (strings, numbers and comments are one
token each by kind), of which the most frequent are kept and all others become one token. It is cut
into blocks of 500; every seventh block is held out. A grouping of the tokens is a class-based
bigram model, p(class | class before) p(token | class), and is judged by its perplexity on the
blocks held out. The exchange algorithm (Martin, Liermann and Ney 1998) moves one token at a time
to the class where the likelihood of that model is highest; here it is a plain compiled loop.

    python benchmarks/word_classes.py [--tokens 1e6] [--vocabulary 2000] [--groups 20 50 160]
"""

import argparse
import sysconfig
import time
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

import romdp
from romdp.core.compiled import kernel

BLOCK, HELD_OUT = 500, 7
ITERATIONS = 30  # of the exchange algorithm, at most
SKIPPED = {"site-packages", "test", "tests", "idlelib", "lib2to3", "__pycache__"}


class Words(NamedTuple):
    """A sequence of token numbers; the pairs within training and within held-out blocks."""

    names: list[str]
    training: list[NDArray[np.int64]]
    pairs: NDArray[np.int64]  # (2, n): token, next token
    held_out: NDArray[np.int64]


def source_files(seed: int) -> list[Path]:
    """List the standard library's modules in an order drawn at random."""
    root = Path(sysconfig.get_paths()["stdlib"])
    found = sorted(p for p in root.rglob("*.py") if not SKIPPED & set(p.relative_to(root).parts))
    return [found[i] for i in np.random.default_rng(seed).permutation(len(found))]


def tokens_of(path: Path) -> Iterator[str]:
    """Yield the tokens of a module; kinds in angle brackets stand for all tokens of that kind."""
    kinds = {
        tokenize.STRING: "<string>",
        tokenize.NUMBER: "<number>",
        tokenize.COMMENT: "<comment>",
        tokenize.NEWLINE: "<newline>",
        tokenize.INDENT: "<indent>",
        tokenize.DEDENT: "<dedent>",
    }
    with tokenize.open(path) as file:
        for token in tokenize.generate_tokens(file.readline):
            if token.type not in (tokenize.NL, tokenize.ENDMARKER):
                yield kinds.get(token.type, token.string)


def read_words(n_tokens: int, vocabulary: int, seed: int) -> Words:
    """Read tokens until there are enough, and cut them into blocks."""
    text: list[str] = []
    for path in source_files(seed):
        if len(text) >= n_tokens:
            break
        try:
            text.extend(tokens_of(path))
        except (SyntaxError, UnicodeDecodeError):  # files that are wrong on purpose
            continue
    blocks = [text[i : i + BLOCK] for i in range(0, n_tokens, BLOCK)]
    training = [block for i, block in enumerate(blocks) if i % HELD_OUT]
    frequency = Counter(word for block in training for word in block)
    names = [word for word, _ in frequency.most_common(vocabulary - 1)]
    number = {word: i for i, word in enumerate(names)}

    def numbered(those: list[list[str]]) -> list[NDArray[np.int64]]:
        return [np.array([number.get(word, len(names)) for word in block]) for block in those]

    known = numbered(training)
    return Words([*names, "<other>"], known, pairs(known), pairs(numbered(blocks[::HELD_OUT])))


def pairs(blocks: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Join the pairs (token, next token) within blocks."""
    return np.concatenate([np.stack([b[:-1], b[1:]]) for b in blocks], axis=1)


def perplexity(words: Words, labels: NDArray[np.int64]) -> float:
    """Fit the class-based bigram model to the training pairs and test it on those held out."""
    n_groups, size = labels.max() + 1, len(words.names)
    (before, after), (here, there) = words.pairs, words.held_out
    moves = np.full((n_groups, n_groups), 0.05)
    np.add.at(moves, (labels[before], labels[after]), 1)
    moves /= moves.sum(axis=1, keepdims=True)
    shown = np.bincount(after, minlength=size) + 0.1
    shown /= np.bincount(labels, shown, n_groups)[labels]
    return float(np.exp(-np.mean(np.log(moves[labels[here], labels[there]] * shown[there]))))


def cluster(words: Words, n_states: int | None, seed: int) -> NDArray[np.int64]:
    """Group the tokens by likelihood."""
    joined = np.concatenate(words.training)
    seen = romdp.Trajectory(
        joined,
        np.zeros(len(joined), np.int64),
        lengths=[len(b) for b in words.training],
        n_observations=len(words.names),
    )
    labels = romdp.cluster(seen, n_states=n_states, seed=seed).labels
    return np.where(labels < 0, 0, labels)


def exchange(words: Words, n_groups: int) -> NDArray[np.int64]:
    """Run the exchange algorithm, tokens and classes in the order of frequency."""
    size = len(words.names)
    ones = np.ones(words.pairs.shape[1])
    counts = scipy.sparse.coo_array((ones, words.pairs), shape=(size, size)).tocsr()
    turned = scipy.sparse.csr_array(counts.T)
    frequency = np.bincount(words.pairs[0], minlength=size)
    order = np.argsort(-frequency, kind="stable")
    labels = np.empty(size, np.int64)
    labels[order] = np.arange(size) % n_groups
    links = [(m.indptr, m.indices, m.data) for m in (counts, turned)]
    _exchange(*links[0], *links[1], order, labels, n_groups, ITERATIONS)
    return labels


@kernel
def _x_log_x(x: float) -> float:
    return x * np.log(x) if x > 0 else 0.0


@kernel
def _exchange(
    out_start: NDArray[np.int32],
    out_word: NDArray[np.int32],
    out_count: NDArray[np.float64],
    in_start: NDArray[np.int32],
    in_word: NDArray[np.int32],
    in_count: NDArray[np.float64],
    order: NDArray[np.int64],
    labels: NDArray[np.int64],
    n_groups: int,
    iterations: int,
) -> None:
    """Move one word after the other to the class of highest likelihood until none moves."""
    moves = np.zeros((n_groups, n_groups))
    for w in range(labels.size):
        for i in range(out_start[w], out_start[w + 1]):
            moves[labels[w], labels[out_word[i]]] += out_count[i]
    for _ in range(iterations):
        moved = 0
        for w in order:
            old = labels[w]
            leads, comes, loops = np.zeros(n_groups), np.zeros(n_groups), 0.0
            for i in range(out_start[w], out_start[w + 1]):
                if out_word[i] == w:
                    loops = out_count[i]
                else:
                    leads[labels[out_word[i]]] += out_count[i]
            for i in range(in_start[w], in_start[w + 1]):
                if in_word[i] != w:
                    comes[labels[in_word[i]]] += in_count[i]
            moves[old] -= leads
            moves[:, old] -= comes
            moves[old, old] -= loops
            rows, columns = moves.sum(axis=1), moves.sum(axis=0)
            out_total, in_total = leads.sum() + loops, comes.sum() + loops
            best, highest = old, -np.inf
            for c in range(n_groups):
                value = _x_log_x(rows[c]) - _x_log_x(rows[c] + out_total)
                value += _x_log_x(columns[c]) - _x_log_x(columns[c] + in_total)
                for t in range(n_groups):
                    if t != c and leads[t] > 0:
                        value += _x_log_x(moves[c, t] + leads[t]) - _x_log_x(moves[c, t])
                    if t != c and comes[t] > 0:
                        value += _x_log_x(moves[t, c] + comes[t]) - _x_log_x(moves[t, c])
                inner = leads[c] + comes[c] + loops
                value += _x_log_x(moves[c, c] + inner) - _x_log_x(moves[c, c])
                if value > highest + 1e-9:
                    best, highest = c, value
            moves[best] += leads
            moves[:, best] += comes
            moves[best, best] += loops
            labels[w] = best
            moved += best != old
        if moved == 0:
            break


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tokens", type=float, default=1e6)
    parser.add_argument("--vocabulary", type=int, default=2000)
    parser.add_argument("--groups", type=int, nargs="*", default=[20, 50, 160])
    parser.add_argument("--seed", type=int, default=0, help="of the files' order and the search")
    options = parser.parse_args()
    words = read_words(int(options.tokens), options.vocabulary, options.seed)
    small = read_words(20_000, 200, options.seed)  # compiles everything before the clock runs
    exchange(small, len(np.unique(cluster(small, None, 0))))
    alone = perplexity(words, np.zeros(len(words.names), np.int64))
    print(f"{words.pairs.shape[1]:,} training pairs, {words.held_out.shape[1]:,} held out")
    print(f"perplexity of single tokens {alone:.1f}; seconds of one core in brackets")
    print("| groups | romdp | exchange |")
    print("|---|---|---|")
    for wanted in [*options.groups, None]:
        began = time.process_time()
        mine = cluster(words, wanted, options.seed)
        between = time.process_time()
        theirs = exchange(words, mine.max() + 1)
        done = time.process_time()
        print(
            f"| {mine.max() + 1}{'' if wanted else ' (found)'} "
            f"| {perplexity(words, mine):.2f} ({between - began:.1f}) "
            f"| {perplexity(words, theirs):.2f} ({done - between:.1f}) |",
            flush=True,
        )


if __name__ == "__main__":
    main()
