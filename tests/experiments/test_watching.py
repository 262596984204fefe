import io
import re

from romdp.experiments.specification import RunSpec
from romdp.experiments.watching import Live, Plain, Progress, Watcher, last_line

RUNS = [RunSpec("ucrl2", "grid", 9, seed) for seed in range(40)]
FACTS = {"regret": 1234.56, "n_clusters": 9, "exact": True, "seconds": 1.25}
ERROR = "Traceback\n  somewhere\nValueError: [bold]this[/bold] was wrong\n"


def tell_everything(watcher, workers=2):
    with watcher.watching(5, 1, 1000):
        watcher.compiling()
        watcher.compiling()
        for number in range(workers):
            watcher.progress(f"worker {number}", RUNS[number], Progress(500, 77.0, 4))
        watcher.finished(RUNS[0], FACTS)
        watcher.finished(RUNS[1], {**FACTS, "regret": None, "exact": False})
        watcher.failed(RUNS[2], ERROR)
        watcher.restarted(RUNS[3], 1200, "x.npz is damaged")
        watcher.restarted(RUNS[3], 0, "x.npz is damaged")


def test_silence(capsys):
    tell_everything(Watcher())
    assert capsys.readouterr() == ("", "")


def test_plain_lines():
    stream = io.StringIO()
    tell_everything(Plain(stream))
    assert stream.getvalue().splitlines() == [
        "5 runs of 1,000 steps, 1 done before",
        "compiling, once for this machine ...",
        "[2/5] ucrl2-grid-Y9-s0: regret 1,234.6, 9 groups, exact, 1.2 s",
        "[3/5] ucrl2-grid-Y9-s1: regret unknown, 9 groups, 1.2 s",
        "[4/5] ucrl2-grid-Y9-s2: FAILED: ValueError: [bold]this[/bold] was wrong",
        "the checkpoint of ucrl2-grid-Y9-s3 cannot be used (x.npz is damaged); "
        "the run goes on from step 1,200, the checkpoint before",
        "the checkpoint of ucrl2-grid-Y9-s3 cannot be used (x.npz is damaged); "
        "the run starts from zero",
    ]


class Screen(io.StringIO):
    def isatty(self):
        return True

    def text(self):
        return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", self.getvalue())


def test_a_live_screen_shows_one_bar_for_all_runs():
    stream = Screen()
    live = Live(stream)
    with live.watching(5, 1, 1000):
        live.progress("worker 1", RUNS[0], Progress(500, 77.0, 4))
        live.progress("worker 2", RUNS[1], Progress(250, 33.0, 8))
        (whole,) = live._bars.tasks
        assert whole.completed == 750 / 4000
        assert whole.description == "1 of 5 runs; ucrl2-grid-Y9-s1: regret 33, 8 groups"
        live.finished(RUNS[0], FACTS)
        assert whole.completed == 1250 / 4000
        assert whole.description == "2 of 5 runs"
        live.progress("worker 1", RUNS[0], Progress(900, 80.0, 4))  # late news
        assert whole.completed == 1250 / 4000
        live.progress("worker 1", RUNS[2], Progress(0, 0.0, 9))
        live.failed(RUNS[1], ERROR)
        assert whole.completed == 2000 / 4000
    text = stream.text()
    assert "ucrl2-grid-Y9-s1: FAILED: ValueError: [bold]this[/bold] was wrong" in text


def test_last_line():
    assert last_line(ERROR) == "ValueError: [bold]this[/bold] was wrong"
    assert last_line("") == "no message"
