"use strict";
// The page of an experiment: switches, learning curves, groups along them, the story of a run.
(() => {
  const {
    data, isDark, onTheme, colour, plot, make, picture, number, chip, choice, table,
  } = romdp;
  const $ = (id) => document.getElementById(id);
  const agentsOn = new Set(data.agents.keys());
  const panelsOn = new Set(data.panels.keys());
  const view = {
    measure: Object.keys(data.measures)[0], axis: "root", band: "mean", same: true,
  };
  if (view.measure === "mean_return") view.axis = "linear";
  const AXES = {
    root: { name: "√N", title: "√N", place: Math.sqrt },
    log: { name: "N, logarithmic", title: "step N", place: (n) => n, type: "log" },
    linear: { name: "N", title: "step N", place: (n) => n },
  };
  const colourOf = (agent) => (isDark() ? agent.dark : agent.light);
  const see = (hex, share) => {
    const [r, g, b] = [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
    return `rgba(${r},${g},${b},${share})`;
  };

  // ---- switches ----
  const sample = (agent) => {
    const dashes = { solid: "", dash: "6 3", dot: "2 2", dashdot: "6 2 2 2" };
    const line = picture("line", {
      x1: 0, x2: 24, y1: 6, y2: 6, "stroke-width": 3, "stroke-dasharray": dashes[agent.dash],
    });
    const recolour = () => line.setAttribute("stroke", colourOf(agent));
    recolour();
    onTheme(recolour);
    return picture("svg", { width: 24, height: 12, "aria-hidden": "true" }, line);
  };
  const toggle = (set, key) => (on) => {
    if (on) set.add(key);
    else set.delete(key);
    draw();
  };
  const setView = (name) => (value) => {
    view[name] = value;
    draw();
  };
  data.agents.forEach((agent, a) =>
    $("agents").append(chip(agent.name, true, toggle(agentsOn, a), sample(agent))));
  data.panels.forEach((title, p) =>
    $("worlds").append(chip(title, true, toggle(panelsOn, p))));
  $("views").append(
    choice("measure", Object.entries(data.measures), setView("measure")),
    choice("horizontal axis",
      Object.entries(AXES).map(([key, axis]) => [key, `against ${axis.name}`]), setView("axis"),
      view.axis),
    choice("band", [
      ["mean", "mean, 95% interval"], ["median", "median, quartiles"], ["runs", "single runs"],
    ], setView("band")),
    chip("same height", true, setView("same")),
  );

  // ---- panels ----
  const panelsIn = (target) => data.panels.map((title) => {
    const area = make("div", { className: "plot" });
    const card = make("div", { className: "card" }, make("h3", {}, title), area);
    $(target).append(card);
    return { card, area };
  });
  const curvePanels = panelsIn("curves");
  const bulbPanels = $("bulbs") ? panelsIn("bulbs") : []; // no regret, no bulbs
  const visible = (p) => data.series.filter((s) => s.panel === p && agentsOn.has(s.agent));

  const lineOf = (agent, width) =>
    ({ color: colourOf(agent), dash: agent.dash, width });
  const evenly = (xs, count) => {
    // Markers at places that lie evenly on the axis: the stored steps crowd at its beginning.
    const [first, last] = [xs[0], xs[xs.length - 1]];
    const chosen = new Set();
    for (let i = 0; i < count; i += 1) {
      const wanted = first + ((last - first) * i) / Math.max(count - 1, 1);
      chosen.add(xs.reduce((best, x, k) =>
        (Math.abs(x - wanted) < Math.abs(xs[best] - wanted) ? k : best), 0));
    }
    return xs.map((_, k) => (chosen.has(k) ? 7 : 0));
  };
  const curveTraces = (series) => {
    const agent = data.agents[series.agent];
    const axis = AXES[view.axis];
    const x = series.step.map(axis.place);
    const values = series[view.measure];
    const hover = `${agent.name}: %{y:,.5~g}<br>step %{customdata:,}<extra></extra>`;
    if (view.band === "runs") {
      return values.runs.map((y, r) => ({
        x, y, customdata: series.step, mode: "lines", line: lineOf(agent, 1.3), opacity: 0.8,
        name: agent.name,
        hovertemplate: hover.replace("<br>", ` (seed ${series.seeds[r]})<br>`),
      }));
    }
    const [middle, low, high] = values[view.band];
    const edge = { x, mode: "lines", line: { width: 0 }, hoverinfo: "skip", name: agent.name };
    const traces = [{
      x, y: middle, customdata: series.step, mode: "lines+markers", line: lineOf(agent, 2.2),
      marker: { symbol: agent.symbol, size: evenly(x, 7), color: colourOf(agent), opacity: 1 },
      name: agent.name, hovertemplate: hover,
    }];
    if (series.nRuns > 1) {
      const fill = { fill: "tonexty", fillcolor: see(colourOf(agent), 0.18) };
      traces.unshift({ ...edge, y: low }, { ...edge, y: high, ...fill });
    }
    return traces;
  };
  const limitTraces = (p) => {
    // C log N, which no agent stays below for ever; under regret only.
    const isRegret = ["regret", "pseudo_regret"].includes(view.measure);
    if (!data.limits[p] || !isRegret || !visible(p).length) return [];
    const step = data.series.filter((s) => s.panel === p).map((s) => s.step)
      .reduce((longest, s) => (s.length > longest.length ? s : longest), []);
    return [{
      x: step.map(AXES[view.axis].place), y: step.map((n) => data.limits[p] * Math.log(Math.max(n, 1))),
      customdata: step, mode: "lines", line: { color: colour("soft"), dash: "dot", width: 1 },
      name: "C log N", hovertemplate: "C log N: %{y:,.5~g}<br>step %{customdata:,}<extra></extra>",
    }];
  };
  const span = (traces) => {
    const all = traces.flatMap((trace) => trace.y.filter((y) => y !== null));
    if (!all.length) return null;
    const [low, high] = all.reduce(([a, b], y) => [Math.min(a, y), Math.max(b, y)], [all[0], all[0]]);
    const room = 0.04 * (high - low || 1);
    return [low - room, high + room];
  };
  const drawCurves = () => {
    const drawn = data.panels.map((_, p) =>
      (panelsOn.has(p) ? [...visible(p).flatMap(curveTraces), ...limitTraces(p)] : []));
    const range = view.same ? span(drawn.flat()) : null;
    drawn.forEach((traces, p) => {
      if (!panelsOn.has(p)) return;
      const axis = AXES[view.axis];
      plot(curvePanels[p].area, traces, {
        xaxis: { title: { text: axis.title }, type: axis.type || "linear" },
        yaxis: {
          title: { text: data.measures[view.measure] },
          ...(range ? { range, autorange: false } : { autorange: true }),
        },
      });
    });
    const all = data.series.every((s) => s.seeds.length === s.nRuns);
    const alone = view.band === "runs" || data.series.every((s) => s.nRuns === 1);
    const note = !alone ? data.bands[view.band]
      : all ? "one line per run" : "one line per run; the runs are spread evenly from the best to the worst";
    const limited = data.panels.some((_, p) => limitTraces(p).length);
    const averaged = view.measure === "mean_return" ? `; ${data.returnNote}` : "";
    $("band-note").textContent = note[0].toUpperCase() + note.slice(1) + averaged
      + (limited ? "; thin and grey: C log N, which no agent stays below for ever." : ".");
  };

  // ---- bulbs ----
  const bulbTraces = (series) => {
    const [run, agent] = [series.example, data.agents[series.agent]];
    const at = (values) => run.bulbs.map((k) => values[k]);
    return [{
      x: run.step.map(Math.sqrt), y: run.regret, customdata: run.step.map((n, k) => [n, run.n_clusters[k]]),
      mode: "lines", line: lineOf(agent, 1.6), name: agent.name,
      hovertemplate: `${agent.name}, seed ${run.seed}: %{y:,.5~g}<br>`
        + "step %{customdata[0]:,}, %{customdata[1]} groups<extra></extra>",
    }, {
      x: at(run.step).map(Math.sqrt), y: at(run.regret), text: at(run.n_clusters).map(String),
      mode: "markers+text", hoverinfo: "skip", textfont: { size: 10 }, cliponaxis: false,
      name: agent.name,
      marker: { size: 20, color: colour("page"), line: { color: colourOf(agent), width: 2 } },
    }];
  };
  const drawBulbs = () => bulbPanels.forEach(({ area }, p) => {
    if (panelsOn.has(p)) {
      const traces = visible(p).map(bulbTraces);
      const [lines, bulbs] = [0, 1].map((part) => traces.map((pair) => pair[part]));
      plot(area, [...lines, ...bulbs], {
        xaxis: { title: { text: "√N" } }, yaxis: { title: { text: "regret" } },
      });
    }
  });

  function draw() {
    [curvePanels, bulbPanels].forEach((panels) => panels.forEach(({ card }, p) => {
      card.hidden = !panelsOn.has(p);
    }));
    const names = new Set([...agentsOn].map((a) => data.agents[a].name));
    document.querySelectorAll("#summary tr[data-agent]").forEach((row) => {
      row.hidden = !names.has(row.dataset.agent) || !panelsOn.has(Number(row.dataset.panel));
    });
    drawCurves();
    drawBulbs();
  }

  onTheme(draw);
  draw();

  // ---- the story of one run ----
  const EMISSION = "Observations, sorted by true state and then by group; the darker, the more often its state "
    + "shows it. A group has the colour of the state that most of it belongs to.";
  const chosen = { panel: 0, agent: 0, seed: null };
  const show = (name, drawn, note) => {
    $(name).hidden = !drawn;
    $(name).innerHTML = drawn || ""; // drawn and escaped by Python
    $(`${name}-note`).textContent = note;
  };
  const drawStory = () => {
    const run = data.runs.find((r) =>
      r.panel === chosen.panel && r.agent === chosen.agent && r.seed === chosen.seed);
    const final = (name, words) => (run.final[name] === null ? "" : `${words} ${number(run.final[name])}`);
    const { exact, refines, steps_to_exact: since, seconds } = run.facts;
    const verdict = !run.known ? "" : exact ? `the true grouping from step ${number(since)} on`
      : refines ? "no group mixes hidden states, but some are still apart" : "some group mixes hidden states";
    $("run-facts").textContent = [
      `${data.agents[run.agent].name} in ${data.panels[run.panel]}, seed ${run.seed}`,
      final("regret", "regret"), final("pseudo_regret", "pseudo-regret"),
      final("mean_return", "mean return at the end"), final("n_clusters", "groups at the end:"), verdict,
      `changes of the grouping: ${number(run.changes)}`, `wall time: ${number(seconds)} s`,
    ].filter(Boolean).join(" · ");
    show("flow", run.flow, run.flow ? run.flowNote : "The grouping of this run never changed.");
    show("emission", run.emission, run.emission ? EMISSION : run.known
      ? "Too many observations to draw one by one." : "This world has no hidden states to compare with.");
    const judged = run.chapters.some((row) => row[4]);
    $("chapters").replaceChildren(table(
      ["epoch", "from step", "groups", "what happened", ...(judged ? ["against the truth"] : [])],
      run.chapters.map((row) => (judged ? row : row.slice(0, 4)))));
    $("epochs-note").textContent = run.epochsLeftOut
      ? `${number(run.epochsLeftOut)} epochs between these are left out.` : "";
    $("epochs").replaceChildren(table(
      ["epoch", "from step", "length", "groups", "gain the planner expects", "sweeps"], run.epochs));
  };
  const drawChoice = () => {
    // A menu offers only what there is: each depends on the ones before it.
    const unique = (values) => [...new Set(values)];
    const inPanel = data.runs.filter((run) => run.panel === chosen.panel);
    const agents = unique(inPanel.map((run) => run.agent));
    if (!agents.includes(chosen.agent)) [chosen.agent] = agents;
    const seeds = inPanel.filter((run) => run.agent === chosen.agent).map((run) => run.seed);
    if (!seeds.includes(chosen.seed)) [chosen.seed] = seeds;
    const menu = (label, key, options) => {
      const made = choice(label, options, (value) => {
        chosen[key] = Number(value);
        drawChoice();
        $("choose").querySelector(`[data-key="${key}"]`).focus();
      }, chosen[key]);
      made.dataset.key = key;
      return made;
    };
    $("choose").replaceChildren(
      menu("world", "panel", unique(data.runs.map((run) => run.panel)).map((p) => [p, data.panels[p]])),
      menu("agent", "agent", agents.map((a) => [a, data.agents[a].name])),
      menu("seed", "seed", seeds.map((s) => [s, `seed ${s}`])),
    );
    drawStory();
  };
  // Begin with the run that has the most to tell.
  const first = data.runs.reduce((best, run) => (run.changes > best.changes ? run : best));
  Object.assign(chosen, { panel: first.panel, agent: first.agent, seed: first.seed });

  drawChoice();
})();
