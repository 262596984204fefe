"""Colours and dashes: everybody can be told apart."""

from romdp.experiments import AGENTS
from romdp.experiments.agents import BASELINE_NAMES
from romdp.reports.palette import STATE_COLOURS, UNSEEN_COLOUR, agent_styles, state_colour

NAMES = [*AGENTS, *BASELINE_NAMES]


def test_every_agent_of_the_command_has_a_style_of_its_own():
    styles = agent_styles(NAMES)
    assert list(styles) == NAMES
    assert len(set(styles.values())) == len(NAMES)
    # Without colour, dash and marker still tell any two apart.
    assert len({(style.dash, style.marker) for style in styles.values()}) == len(NAMES)


def test_an_agent_looks_the_same_in_any_company():
    assert agent_styles(["ucrl2"])["ucrl2"] == agent_styles(NAMES)["ucrl2"]


def test_other_agents_take_spare_styles_that_no_other_has():
    mine = [f"mine-{number}" for number in range(9)]
    styles = agent_styles([*NAMES, *mine])
    assert len(set(styles.values())) == len(NAMES) + 9
    assert agent_styles(["a", "b", "a"]).keys() == {"a", "b"}


def test_styles_have_names_for_the_page_and_black_is_light_on_dark():
    for style in agent_styles([*NAMES, *"abcdefghijklmnopqrstuvwxyz"]).values():
        assert style.page_dash in {"solid", "dash", "dot", "dashdot"}
        assert style.page_symbol
        assert style.dark_colour != "#000000"


def test_state_colours_repeat_and_nobody_is_grey():
    assert state_colour(0) == state_colour(len(STATE_COLOURS)) == STATE_COLOURS[0]
    assert state_colour(-1) == UNSEEN_COLOUR
    assert UNSEEN_COLOUR not in STATE_COLOURS
