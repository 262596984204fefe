import io
from dataclasses import replace

import matplotlib.image
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from cases import accuracy, chain

import romdp
import romdp.logs.decoding
from romdp.logs.applying import apply_model
from romdp.logs.evaluating import evaluate
from romdp.logs.fitting import fit_counts
from romdp.logs.reading.columns import Columns
from romdp.logs.reading.counting import count_logs
from romdp.reports.model_page import MEANING, model_page
from romdp.reports.portraits import png


@pytest.fixture(scope="module")
def seen():
    return chain(3000, n_noise=2)


def columns(seen):
    names = [f"x{i}" for i in range(seen.vectors.shape[1])]
    table = dict(zip(names, seen.vectors.T, strict=True))
    return names, {**table, "do": seen.actions, "paid": seen.rewards}


@pytest.fixture(scope="module")
def model(seen):
    names, table = columns(seen)
    return romdp.fit(table, observation=names, action="do", reward="paid")


def test_columns_of_numbers_are_vectors(seen, model):
    assert model.n_states == 4
    states = model.predict(seen.vectors)
    assert accuracy(states, seen.states) > 0.97
    assert model.predict(seen.vectors[0]) == states[0]
    assert model.act(seen.vectors[:5]).shape == (5,)
    assert model.act(seen.vectors[0]) == model.act(seen.vectors[:1])[0]
    assert model.columns["observation"] == "x0,x1,x2,x3,x4,x5"


def test_a_two_dimensional_array_and_lists_are_the_same_vectors(seen, model):
    other = {"do": seen.actions, "paid": seen.rewards}
    for shown in (seen.vectors, pa.array(seen.vectors.tolist())):
        table = {"shown": shown, **other}
        data = pa.table(table) if isinstance(shown, pa.Array) else table
        found = romdp.fit(data, observation="shown", action="do", reward="paid")
        np.testing.assert_array_equal(found.predict(seen.vectors), model.predict(seen.vectors))
    trajectory = romdp.Trajectory(seen.vectors, seen.actions, seen.rewards)
    assert accuracy(romdp.fit(trajectory).predict(seen.vectors), seen.states) > 0.97


def test_episodes_may_be_interleaved_and_sorted(seen):
    names, table = columns(seen)
    episode = np.repeat(["a", "b"], 1500)
    order = np.random.default_rng(0).permutation(3000)
    mixed = {**table, "who": episode, "when": np.arange(3000)}
    mixed = {name: np.asarray(values)[order] for name, values in mixed.items()}
    found = romdp.fit(
        mixed, names, action="do", reward="paid", episode="who", order="when", sort=True
    )
    assert accuracy(found.predict(seen.vectors), seen.states) > 0.97


def test_the_summary_speaks_of_vectors_and_not_of_their_codes(model):
    lines = str(model).splitlines()
    title, head = lines[0], next(line for line in lines if line.startswith("state "))
    n_numbers = model.decoder.encoding.n_features
    assert f"behind vectors of {n_numbers} numbers (" in title
    assert head.split()[:4] == ["state", "share", "do", "greedy"]


def test_a_saved_model_keeps_its_decoder(seen, model, tmp_path):
    model.save(tmp_path / "model")
    again = romdp.load_model(tmp_path / "model")
    np.testing.assert_array_equal(again.predict(seen.vectors), model.predict(seen.vectors))
    assert again.decoder.encoding.scores == model.decoder.encoding.scores
    seen_before, kept = model.decoder.portraits, again.decoder.portraits
    assert kept.rows.sum() == 3000
    for name, array in vars(seen_before).items():
        np.testing.assert_array_equal(getattr(kept, name), array)


def test_portraits_show_members_of_their_states(seen, model):
    shown = model.decoder.portraits
    assert (model.decoder.predict(shown.typical[2]) == 2).all()
    sure = [model.decoder.certainty(some[1]).mean() for some in (shown.typical, shown.doubtful)]
    assert sure[1] < sure[0]
    rows = shown.means * shown.rows[:, None]
    np.testing.assert_allclose(rows.sum(axis=0) / 3000, seen.vectors.mean(axis=0))


def test_the_page_shows_pictures_or_profiles(model):
    page = model_page(model)
    assert "What states look like" in page
    assert "Find an observation" not in page  # vectors have no names
    assert page.count("<circle") >= model.decoder.encoding.n_codes
    pixels = np.arange(12, dtype=np.uint8).reshape(2, 2, 3)
    assert png(pixels).startswith(b"\x89PNG")
    read = matplotlib.image.imread(io.BytesIO(png(pixels)))
    np.testing.assert_allclose(255 * read, pixels, atol=1e-3)


def test_one_scalar_column_is_names_and_a_list_of_one_is_vectors(seen):
    table = {"x": seen.states.astype(float), "do": seen.actions, "paid": seen.rewards}
    assert romdp.fit(table, "x", "do", "paid").decoder is None
    assert romdp.fit(table, ["x"], "do", "paid").decoder is not None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda t: t["x1"].__setitem__(7, np.nan),
            "row 8 of the table, column 'x1': a number is missing",
        ),
        (lambda t: t["paid"].__setitem__(7, np.nan), "row 8 of the table, column 'paid'"),
        (lambda t: t["paid"].__setitem__(7, np.inf), "column 'paid': inf is not a finite"),
        (lambda t: t.pop("x2"), "'x2'"),
        (lambda t: t.__setitem__("x0", ["a"] * 3000), "'x0' holds string"),
    ],
)
def test_bad_columns_are_named(seen, change, message):
    names, table = columns(seen)
    table = {name: np.array(values) for name, values in table.items()}
    change(table)
    with pytest.raises(romdp.ROMDPError, match=message):
        romdp.fit(table, names, "do", "paid")


def test_noise_is_one_state_and_a_warning_says_why():
    rng = np.random.default_rng(0)
    table = {"v": rng.random((300, 3)), "do": rng.integers(2, size=300), "paid": rng.random(300)}
    with pytest.warns(UserWarning, match="No signal"):
        model = romdp.fit(table, "v", "do", "paid")
    assert model.n_states == 1
    assert model.predict(table["v"][:2]).tolist() == [0, 0]


def test_one_number_and_more_numbers_than_steps(seen):
    rng = np.random.default_rng(0)
    few = slice(0, 300)
    other = {"do": seen.actions[few], "paid": seen.rewards[few]}
    single = seen.states[few, None] + 0.1 * rng.standard_normal((300, 1))
    found = romdp.fit({"v": single, **other}, "v", "do", "paid")
    assert accuracy(found.predict(single), seen.states[few]) > 0.95
    wide = np.hstack([seen.vectors[few, :4], 0.01 * rng.standard_normal((300, 310))])
    found = romdp.fit({"v": wide, **other}, "v", "do", "paid")
    assert found.n_states > 1


def test_columns_that_tell_nothing_or_look_like_ids_are_named(seen):
    names, table = columns(seen)
    rng = np.random.default_rng(0)
    small = {name: np.asarray(values)[:300] for name, values in table.items()}
    small |= {"still": np.ones(300), "page": 1000 * rng.integers(1000, size=300)}
    with (
        pytest.warns(UserWarning, match="'still' is always 1"),
        pytest.warns(UserWarning, match="'page' holds .* if they are ids"),
    ):
        romdp.fit(small, [*names, "still", "page"], "do", "paid")
    lists = np.column_stack([seen.vectors[:300, :4], small["page"], small["still"]])
    with pytest.warns(UserWarning, match=r"'v\[4\]' holds .* if they are ids") as given:
        romdp.fit({**small, "v": lists}, "v", "do", "paid")
    assert len(given) == 1  # a picture may well have numbers that never vary


def test_a_model_of_vectors_is_applied_and_evaluated(seen, model, tmp_path):
    names, table = columns(seen)
    rows = {name: list(values[:200]) for name, values in table.items()}
    rows["x1"][3] = None
    rows["visit"] = [t // 10 for t in range(200)]
    for form, write in (("parquet", pq.write_table), ("csv", pa.csv.write_csv)):
        write(pa.table(rows), tmp_path / f"log.{form}")
        applied = apply_model(model, tmp_path / f"log.{form}", tmp_path / f"out.{form}")
        assert (int(applied), applied.n_unplaced) == (200, 1)
    written = pq.read_table(tmp_path / "out.parquet").to_pydict()
    assert written["hidden_state"][3] is written["recommended_action"][3] is None
    kept = [t for t in range(200) if t != 3]
    assert [written["hidden_state"][t] for t in kept] == model.predict(seen.vectors[kept]).tolist()
    rows["x1"][3] = 0.0
    found = evaluate(rows, model, names, "do", "paid", "visit")
    again = evaluate(pa.table(rows), model, ",".join(names), "do", "paid", "visit")
    assert [estimate.value for estimate in found] == [estimate.value for estimate in again]
    assert np.isfinite(next(iter(found)).value)


def test_the_commands_take_a_model_of_vectors(seen, model, tmp_path):
    from typer.testing import CliRunner

    from romdp.cli import app

    _, table = columns(seen)
    rows = {name: values[:100] for name, values in table.items()} | {"visit": np.arange(100) // 5}
    pq.write_table(pa.table(rows), tmp_path / "log.parquet")
    model.save(tmp_path / "model")
    log, out = str(tmp_path / "log.parquet"), str(tmp_path / "out.csv")
    for arguments in (
        ["apply", str(tmp_path / "model"), log, "--out", out],
        ["evaluate", str(tmp_path / "model"), log, "--episode", "visit"],
    ):
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == 0, result.output


def test_the_command_takes_several_columns(seen, tmp_path):
    from typer.testing import CliRunner

    from romdp.cli import app

    names, table = columns(seen)
    pq.write_table(pa.table(table), tmp_path / "log.parquet")
    out = tmp_path / "model"
    arguments = ["fit", str(tmp_path / "log.parquet"), "--observation", ",".join(names)]
    arguments += ["--action", "do", "--reward", "paid", "--out", str(out)]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert romdp.load_model(out).n_states == 4


def test_the_command_takes_one_measurement_as_a_vector(tmp_path):
    from typer.testing import CliRunner

    from romdp.cli import app

    rng = np.random.default_rng(0)
    table = {"warm": rng.normal(size=1500), "do": rng.integers(2, size=1500)}
    table["paid"] = ((table["warm"] > 0) & (table["do"] == 1)).astype(float)
    table["warm"] += 9.0 * (table["warm"] > 0)
    pq.write_table(pa.table(table), tmp_path / "log.parquet")
    rest = ["--action", "do", "--reward", "paid"]
    alone = CliRunner().invoke(
        app, ["fit", str(tmp_path / "log.parquet"), "--observation", "warm", *rest]
    )
    assert isinstance(alone.exception, romdp.ROMDPError)
    assert "--observation NAME, with a comma" in str(alone.exception)
    out = tmp_path / "model"
    rest += ["--out", str(out)]
    vector = CliRunner().invoke(
        app, ["fit", str(tmp_path / "log.parquet"), "--observation", "warm,", *rest]
    )
    assert vector.exit_code == 0, vector.output
    assert romdp.load_model(out).n_states == 2


@pytest.mark.parametrize(
    ("lists", "message"),
    [
        (
            [[1.0, 2.0]] * 4 + [[3.0]],
            "row 5 of the table, column 'v': the list has 1 numbers and that of the first row 2",
        ),
        ([[1.0, 2.0]] * 4 + [None], "row 5 of the table, column 'v': a number is missing"),
        ([[1.0, 2.0]] * 4 + [[1.0, None]], "row 5 of the table, column 'v': a number is missing"),
        (
            [[1.0, 2.0]] * 4 + [[1.0, 1e200]],
            "row 5 of the table, column 'v': 1e.200 is no finite number",
        ),
        ([], "holds no rows"),
    ],
)
def test_bad_lists_are_refused_with_their_row(lists, message):
    n = len(lists)
    table = pa.table(
        {
            "v": pa.array(lists, pa.list_(pa.float64())),
            "do": pa.array([0, 1, 0, 1, 0][:n], pa.int64()),
            "paid": pa.array([0.0, 1.0, 0.0, 1.0, 0.0][:n], pa.float64()),
        }
    )
    with pytest.raises(romdp.ROMDPError, match=message):
        romdp.fit(table, "v", "do", "paid")


def test_a_single_column_of_measurements_is_named(seen):
    table = {"x": seen.vectors[:300, 0], "do": seen.actions[:300], "paid": seen.rewards[:300]}
    with pytest.warns(UserWarning, match=r"column 'x' holds 300 different .*observation=\['x'\]"):
        romdp.fit(table, "x", "do", "paid")


def test_every_note_on_the_states_is_a_warning_and_printed_and_on_the_page():
    rng = np.random.default_rng(0)
    actions, states = rng.integers(2, size=3000), np.zeros(3000, int)
    for t in range(2999):  # states 0 and 2 look alike
        states[t + 1] = (states[t] + actions[t]) % 4
    looks = np.array([0, 1, 0, 2])[states]
    table = {"v": np.eye(3)[looks], "do": actions, "paid": rng.random(3000)}
    with pytest.warns(UserWarning, match="Not Markov"):
        model = romdp.fit(table, "v", "do", "paid")
    assert model.n_states > 1
    assert any(note.startswith("Not Markov") for note in model.warnings)
    assert "NO  Not Markov: " in str(model)
    assert "<b>Not Markov.</b>" in str(model_page(model))


def test_a_data_frame_is_read_by_the_names_of_its_columns(seen, model):
    pandas = pytest.importorskip("pandas")
    names, table = columns(seen)
    frame = pandas.DataFrame(table)[:20]
    states = model.predict(seen.vectors[:20])
    for order in (names, names[::-1], list(frame)):
        np.testing.assert_array_equal(model.predict(frame[order]), states)
    with pytest.raises(romdp.ROMDPError, match="no column 'x1'"):
        model.predict(frame.drop(columns="x1"))
    frame.loc[3, "x2"] = np.nan
    with pytest.raises(romdp.ROMDPError, match="column 'x2' holds nan in row 3"):
        model.predict(frame)


def test_what_is_no_vector_is_not_taken_for_the_number_of_a_state(seen, model):
    bytes_ = np.clip(100 * seen.vectors + 50, 0, 255).astype(np.uint8)
    table = {"v": bytes_, "do": seen.actions, "paid": seen.rewards}
    found = romdp.fit(table, "v", "do", "paid")
    assert found.predict(bytes_[0]) == found.predict(bytes_[:1])[0]
    assert found.act(bytes_[0].tolist()) == found.act(bytes_[:1])[0]
    with pytest.raises(romdp.ROMDPError, match="vectors have 2 numbers each"):
        model.predict([0, 1])
    with pytest.raises(romdp.ROMDPError, match="learned from vectors"):
        model.predict(0)
    assert model.predict(seen.vectors[:0]).shape == model.act(seen.vectors[:0]).shape == (0,)


def test_states_that_the_log_never_shows_do_not_shift_the_others(seen, model, tmp_path):
    """A decoder may know a state that is no row's most likely one."""
    names, table = columns(seen)
    kept = model.decoder.predict(seen.vectors) != 0
    rows = {name: np.asarray(values)[kept] for name, values in table.items()}
    fewer = fit_counts(
        count_logs(
            {**rows, "s": model.decoder.predict(seen.vectors[kept])}, Columns("s", "do", "paid")
        )
    )
    fewer = replace(fewer, decoder=model.decoder, columns=model.columns)
    pq.write_table(pa.table(rows), tmp_path / "log.parquet")
    apply_model(fewer, tmp_path / "log.parquet", tmp_path / "out.parquet", ",".join(names))
    written = pq.read_table(tmp_path / "out.parquet")["hidden_state"].to_pylist()
    assert written == fewer.predict(seen.vectors[kept]).tolist()


def test_a_trajectory_of_vectors_ends_where_it_says(seen, monkeypatch):
    given = []
    find = romdp.logs.decoding.find_states
    monkeypatch.setattr(
        romdp.logs.decoding, "find_states", lambda *some: given.append(some[0]) or find(*some)
    )
    lengths, terminated = np.full(100, 30), np.arange(100) % 2 == 0
    ended = romdp.Trajectory(
        seen.vectors, seen.actions, seen.rewards, lengths, terminated=terminated
    )
    found = romdp.HiddenStates().fit(ended)
    assert given[0].terminated.tolist() == terminated.tolist()
    assert given[0].lengths.tolist() == lengths.tolist()
    np.testing.assert_array_equal(found.labels_, found.predict(ended))
    assert accuracy(found.labels_, seen.states) > 0.97


def test_checks_and_page_ask_of_vectors_only_what_vectors_can_answer(model):
    names = [check.name for check in model.checks]
    assert set(names) <= set(MEANING)
    assert names[0] == "vectors are placed surely"
    assert model.checks[0].ok
    assert "the observations of a state are alike" not in names
    assert "hidden states predict better than single observations" not in names
    text = str(model_page(model))
    assert "without hidden states" not in text
    assert "no margins" not in text
    assert '<th scope="col">typical' not in text
    assert "<title>x0: " in text  # a bar says which column it is
    doubtful = replace(model.decoder.portraits, certainty=np.full(4, 0.5))
    other = replace(model, decoder=replace(model.decoder, portraits=doubtful))
    assert any(text.startswith("vectors are placed surely? No") for text in other.warnings)


def test_a_model_of_features_says_that_it_needs_them_again(seen, tmp_path):
    table = {"v": seen.vectors, "do": seen.actions, "paid": seen.rewards}
    encoder = romdp.Encoder(features=np.tanh)
    romdp.fit(table, "v", "do", "paid", encoder=encoder).save(tmp_path / "model")
    with pytest.raises(romdp.ROMDPError, match="pass the same object as features=") as refusal:
        romdp.load_model(tmp_path / "model")
    assert "damaged" not in str(refusal.value)
    states = romdp.load_model(tmp_path / "model", features=np.tanh).predict(seen.vectors)
    assert accuracy(states, seen.states) > 0.95


def test_features_may_have_any_width_and_states_are_shown_as_the_vectors_they_are(seen, tmp_path):
    def widened(rows):
        return np.hstack([rows, rows**2])

    encoder = romdp.Encoder(features=widened)
    trajectory = romdp.Trajectory(seen.vectors, seen.actions, seen.rewards)
    assert accuracy(romdp.cluster(trajectory, encoder=encoder).labels, seen.states) > 0.9
    table = {"v": seen.vectors, "do": seen.actions, "paid": seen.rewards}
    model = romdp.fit(table, "v", "do", "paid", encoder=encoder)
    assert accuracy(model.predict(seen.vectors), seen.states) > 0.9
    assert model.decoder.portraits.typical.shape[2] == seen.vectors.shape[1]
    assert (seen.vectors == model.decoder.portraits.typical[0, 0]).all(axis=1).any()
    assert "v" in str(model_page(model))
    model.save(tmp_path / "model")
    again = romdp.load_model(tmp_path / "model", features=widened)
    np.testing.assert_array_equal(again.predict(seen.vectors), model.predict(seen.vectors))
