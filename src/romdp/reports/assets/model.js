"use strict";
// The page of a model: one state in detail, the search for observations, and the graph's switch.
(() => {
  const { data, make, number, choice, stack } = romdp;
  const $ = (id) => document.getElementById(id);
  const seen = data.observations;
  const MOST_FOUND = 12;
  const MOST_SHOWN = 50;
  const view = { state: null, moves: data.rewarded ? "best" : "logged" };

  const percent = (share) => `${(100 * share).toFixed(share >= 0.0995 || !share ? 0 : 1)}%`;
  // Probabilities that are near one must not be rounded to it.
  const certain = (chance) => {
    if (chance === null) return "-";
    return chance > 0.999 ? "over 99.9%" : `${(100 * chance).toFixed(chance > 0.99 ? 1 : 0)}%`;
  };
  const colourOf = (s) => (data.rewarded ? data.colours[data.states[s].best] : data.colours[0]);
  const members = data.states.map(() => []);
  seen.states.forEach((s, y) => s >= 0 && members[s].push(y));
  const nameOf = (s) => (members[s].length ? seen.names[members[s][0]] : "");
  const name = (text) => make("bdi", { title: text }, text);
  const stateButton = (s) => {
    if (s < 0) return "none";
    const button = make("button", { type: "button", className: "go" }, `${s}`);
    button.addEventListener("click", () => select(s, true));
    return button;
  };
  const grid = (headings, rows, classes = []) => make("div", { className: "scroll", tabIndex: 0 },
    stack(make("table", {},
      make("thead", {}, make("tr", {}, ...headings.map((heading, c) =>
        make("th", { scope: "col", className: classes[c] || "" }, heading)))),
      make("tbody", {}, ...rows.map((row) => make("tr", {}, ...row.map((cell, c) =>
        make("td", { className: classes[c] || "" }, ...[cell].flat()))))))));

  // ---- histograms of certainty ----
  const bars = (counts, title) => {
    const most = Math.max(1, ...counts);
    return make("div", { className: "bars", role: "img", ariaLabel: title },
      ...counts.map((count, b) => {
        const bar = make("i", {});
        bar.style.height = `${(70 * count) / most}px`;
        return make("div", { className: b < 3 ? "low" : "" }, make("b", {}, number(count)), bar, data.bins[b]);
      }));
  };
  const total = data.bins.map((_, b) => data.states.reduce((sum, state) => sum + state.margins[b], 0));
  if (total.some((count) => count)) $("margins").append(bars(total, "observations by certainty"));

  // ---- observations ----
  const folded = seen.names.map((text) => text.toLocaleLowerCase());
  // Exact names first, then those that begin with it, then those that hold it; each by frequency.
  const matches = (query, among) => {
    const wanted = query.trim().toLocaleLowerCase();
    const ranks = [[], [], []];
    among.forEach((y) => {
      const at = folded[y].indexOf(wanted);
      if (at >= 0) ranks[folded[y] === wanted ? 0 : at === 0 ? 1 : 2].push(y);
    });
    return wanted ? ranks.flat() : [...among];
  };
  const rest = (count, what) => (count > 0 ? [make("p", { className: "note" }, `and ${number(count)} more${what}`)] : []);
  const asked = (y) => (seen.asked[y] < 0 ? "as before" : name(data.actions[seen.asked[y]]));
  const everything = seen.names.map((_, y) => y);
  const find = () => {
    if (!$("find").value.trim()) {
      $("found").replaceChildren();
      return;
    }
    const found = matches($("find").value, everything);
    if (!found.length) {
      $("found").replaceChildren(make("p", { className: "note" }, "No observation has this in its name."));
      return;
    }
    const advice = (y) => (data.rewarded ? [asked(y)] : []);
    const rows = found.slice(0, MOST_FOUND).map((y) => [
      name(seen.names[y]), ...advice(y), stateButton(seen.states[y]), certain(seen.certainty[y]),
      number(seen.visits[y]),
    ]);
    const heading = data.rewarded ? ["what to do"] : [];
    $("found").replaceChildren(
      grid(["observation", ...heading, "state", "certainty", "seen"], rows,
        ["wrap", ...heading.map(() => "wrap"), "", "number", "number"]),
      ...rest(found.length - MOST_FOUND, "; type more of the name"));
  };
  if ($("find")) $("find").addEventListener("input", find);

  // ---- one state ----
  const leads = (law) => {
    if (!law) return ["nobody knows"];
    return law.slice(0, 3).flatMap(([to, chance]) => [stateButton(to), ` ${percent(chance)} `]);
  };
  const actionTable = (state) => {
    const order = state.actions.map((_, a) => a).sort((a, b) =>
      (b === state.best) - (a === state.best) || state.actions[b].visits - state.actions[a].visits);
    const rows = order.map((a) => {
      const action = state.actions[a];
      const marks = [];
      if (data.rewarded && a === state.best) marks.push(make("span", { className: "mark good" }, "best"));
      if (data.rewarded && a === state.cautious && a !== state.best) {
        marks.push(make("span", { className: "mark soft", title: "best if every width were as bad as it could be" }, "cautious"));
      }
      if (action.visits < data.rare) marks.push(make("span", { className: "mark" }, action.visits ? "rarely tried" : "never tried"));
      return [[name(data.actions[a]), " ", ...marks], number(action.visits),
        ...(data.rewarded ? [action.pays, a === state.best ? "" : action.loses === null ? "-" : number(Number(action.loses.toPrecision(3)))] : []),
        leads(action.leads)];
    });
    return grid(["action", "tried", ...(data.rewarded ? ["pays", "loses"] : []), "leads to"], rows,
      ["wrap", "number", ...(data.rewarded ? ["number", "number"] : []), "leads"]);
  };
  const observationList = (s) => {
    const state = data.states[s];
    const box = make("input", { type: "search", id: "filter", placeholder: "search these", ariaLabel: "search the observations of this state", autocomplete: "off" });
    const list = make("div", { id: "members" });
    const hidden = state.size - members[s].length; // rarer than what the page holds
    const show = () => {
      const found = matches(box.value, members[s]);
      list.replaceChildren(
        grid(["observation", "seen", "certainty"], found.slice(0, MOST_SHOWN).map((y) => [
          name(seen.names[y]), number(seen.visits[y]), certain(seen.certainty[y]),
        ]), ["wrap", "number", "number"]),
        ...rest(found.length - MOST_SHOWN + (box.value.trim() ? 0 : hidden), "; the most frequent are shown"));
      list.firstChild.classList.add("tall");
    };
    box.addEventListener("input", show);
    show();
    return [make("div", { className: "row" }, make("h3", {}, `${number(state.size)} observation${state.size === 1 ? "" : "s"}`), box), list];
  };
  const summary = (state) => {
    const words = [`${percent(state.share)} of all steps`];
    if (state.future !== null) words.push(`${percent(state.future)} if the greedy policy is followed`);
    const advice = [];
    if (data.rewarded) {
      const tries = state.actions[state.best].visits;
      const planned = state.asked === null;
      if (!planned) advice.push(make("p", {}, "What to do: ", make("b", {}, name(state.asked)), "."));
      advice.push(make("p", {}, planned ? "What to do: " : "Greedy: ", make("b", {}, name(data.actions[state.best])),
        tries < data.rare ? ` (tried only ${number(tries)} times)`
          : state.sure === null ? "" : ` (${certain(state.sure)} sure that it beats the next best)`));
    }
    return [make("p", { className: "note" }, `${words.join(", ")}.`), ...advice];
  };
  const drawDetail = () => {
    const state = data.states[view.state];
    const swatch = make("i", { className: "swatch" });
    swatch.style.background = colourOf(view.state);
    const known = state.margins.some((count) => count);
    $("detail").replaceChildren(
      make("h3", {}, swatch, `State ${view.state}`),
      ...summary(state), actionTable(state),
      ...(data.rewarded ? [make("p", { className: "note" },
        "Pays: mean reward, ± two standard deviations of what is known about it, given the states. "
        + "Loses: what one use in place of the best action costs in the long run.")] : []),
      ...(data.named ? observationList(view.state) : []),
      ...(known ? [make("h3", {}, "How certain they are"), bars(state.margins, "its observations by certainty")] : []),
    );
    $("detail").scrollTop = 0;
    document.querySelectorAll("tr[data-state]").forEach((row) =>
      row.classList.toggle("chosen", Number(row.dataset.state) === view.state));
  };

  // ---- the graph ----
  const lawsNow = () => data.states.map((state) => {
    if (view.moves === "logged") return state.logged.length ? state.logged : null;
    return state.actions[view.moves === "best" ? state.best : Number(view.moves)].leads;
  });
  const drawGraph = romdp.stateGraph($("graph"), { colourOf, nameOf, select: (s) => select(s, false) });
  const redraw = () => {
    const focused = document.activeElement && $("graph").contains(document.activeElement);
    $("graph-note").textContent = drawGraph(lawsNow(), view.state);
    if (focused) $("graph").querySelector(`[data-state="${view.state}"]`)?.focus({ preventScroll: true });
  };
  const select = (s, move) => {
    view.state = s;
    drawDetail();
    redraw();
    const box = $("detail").getBoundingClientRect();
    const away = box.top < 0 || box.top > window.innerHeight - 160;
    if (move && away) (window.innerWidth > 900 ? $("map") : $("detail")).scrollIntoView({ behavior: "smooth", block: "start" });
  };
  document.querySelectorAll("tr[data-state], button[data-state]").forEach((row) =>
    row.addEventListener("click", (event) => {
      event.stopPropagation();
      select(Number(row.dataset.state), true);
    }));

  const names = data.actions.map((text, a) => [a, `always: ${text}`]);
  const menu = choice("moves under", [
    ...(data.rewarded ? [["best", "the greedy policy"]] : []), ["logged", data.logged],
    ...(names.length > 1 ? names : []),
  ], (value) => {
    view.moves = value;
    redraw();
  });
  $("views").append(make("span", { className: "name" }, "moves under"), menu);
  const used = [...new Set(data.states.map((state) => state.best))].sort((a, b) => a - b);
  const named = used.filter((a) => data.colours[a] !== data.otherColour);
  const key = (colour, text) => {
    const swatch = make("i", { className: "swatch" });
    swatch.style.background = colour;
    return make("span", { className: "key" }, swatch, text);
  };
  if (data.rewarded) {
    $("legend").append(make("span", { className: "name" }, "do"), ...named.map((a) => key(data.colours[a], name(data.actions[a]))),
      ...(named.length < used.length ? [key(data.otherColour, "other actions")] : []));
  }

  const first = data.states.reduce((best, state, s) => (state.share > data.states[best].share ? s : best), 0);
  view.state = first;
  drawDetail();
  view.state = null; // nothing is singled out in the graph until a state is chosen
  redraw();
  let width = $("graph").clientWidth;
  new ResizeObserver(() => {
    if ($("graph").clientWidth === width) return;
    width = $("graph").clientWidth;
    redraw();
  }).observe($("graph"));
})();
