"use strict";
// The page of an experiment: switches, learning curves, and groups along them.
(() => {
  const { data, isDark, onTheme, colour, plot, make, picture, chip, choice } = romdp;
  const $ = (id) => document.getElementById(id);
  const agentsOn = new Set(data.agents.keys());
  const panelsOn = new Set(data.panels.keys());
  const view = {
    measure: Object.keys(data.measures)[0], axis: "root", band: "mean", same: true,
  };
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
      Object.entries(AXES).map(([key, axis]) => [key, `against ${axis.name}`]), setView("axis")),
    choice("band", [
      ["mean", "mean, 95% interval"], ["median", "median, quartiles"], ["runs", "every run"],
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
    if (series.seeds.length > 1) {
      const fill = { fill: "tonexty", fillcolor: see(colourOf(agent), 0.18) };
      traces.unshift({ ...edge, y: low }, { ...edge, y: high, ...fill });
    }
    return traces;
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
      (panelsOn.has(p) ? visible(p).flatMap(curveTraces) : []));
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
    const alone = view.band === "runs" || data.series.every((s) => s.seeds.length === 1);
    $("band-note").textContent = alone ? "one line per run" : data.bands[view.band];
  };

  // ---- bulbs ----
  const bulbTraces = (p) => {
    const chosen = visible(p).map((series) => data.runs[series.example]);
    const [low, high] = span(chosen.map((run) => ({ y: run.regret }))) || [0, 1];
    const last = Math.max(1, ...chosen.map((run) => Math.sqrt(run.step[run.step.length - 1])));
    const taken = [];
    // Last points first: the final number of groups must not be crowded out.
    const kept = chosen.map(() => []);
    const consider = (run, r, k) => {
      if (run.regret[k] === null) return;
      const spot = [Math.sqrt(run.step[k]) / last, (run.regret[k] - low) / (high - low)];
      if (taken.some(([x, y]) => Math.hypot(spot[0] - x, spot[1] - y) < 0.075)) return;
      taken.push(spot);
      kept[r].push(k);
    };
    chosen.forEach((run, r) => consider(run, r, run.bulbs[run.bulbs.length - 1]));
    chosen.forEach((run, r) => run.bulbs.slice(0, -1).reverse().forEach((k) => consider(run, r, k)));
    const lines = chosen.map((run) => ({
      x: run.step.map(Math.sqrt), y: run.regret, customdata: run.step.map((n, k) => [n, run.n_clusters[k]]),
      mode: "lines", line: lineOf(data.agents[run.agent], 1.6), name: data.agents[run.agent].name,
      hovertemplate: `${data.agents[run.agent].name}, seed ${run.seed}: %{y:,.5~g}<br>`
        + "step %{customdata[0]:,}, %{customdata[1]} groups<extra></extra>",
    }));
    const bulbs = chosen.map((run, r) => ({
      x: kept[r].map((k) => Math.sqrt(run.step[k])), y: kept[r].map((k) => run.regret[k]),
      text: kept[r].map((k) => `${run.n_clusters[k]}`), mode: "markers+text", hoverinfo: "skip",
      textfont: { size: 10 }, cliponaxis: false, name: data.agents[run.agent].name,
      marker: {
        size: 20, color: colour("page"),
        line: { color: colourOf(data.agents[run.agent]), width: 2 },
      },
    }));
    return [...lines, ...bulbs];
  };
  const drawBulbs = () => bulbPanels.forEach(({ area }, p) => {
    if (panelsOn.has(p)) {
      plot(area, bulbTraces(p), {
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
})();
