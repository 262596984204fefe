"use strict";
// The page of an experiment: the story of one run.
(() => {
  const { data, picture, number, choice, table } = romdp;
  const $ = (id) => document.getElementById(id);
  const stateColour = (state) =>
    state < 0 ? data.unseenColour : data.stateColours[state % data.stateColours.length];
  const chosen = { panel: 0, agent: 0, seed: null };
  const text = (x, y, words, more) =>
    picture("text", { x, y, "text-anchor": "middle", fill: "currentColor", "font-size": 11, ...more }, words);
  const hint = (words) => picture("title", {}, words);

  const drawFlow = (run) => {
    const { columns, ribbons, leftOut } = run.flow;
    const moves = columns.length > 1;
    $("flow").hidden = !moves;
    const colours = run.known ? "their true hidden state" : "their final group";
    $("flow-note").textContent = moves
      ? `Columns: the grouping at the start of an epoch. Ribbons: observations, coloured by ${colours}.`
        + (run.known ? " Hatched: a group that mixes states." : "")
        + (leftOut ? ` ${leftOut} smaller changes are left out.` : "")
      : "The grouping of this run never changed.";
    if (!moves) return;
    const [step, height, top, half] = [120, 430, 34, 9];
    const width = step * (columns.length - 1) + 110;
    const left = (c) => 55 + c * step;
    const down = (y) => top + y * height;
    const drawing = picture("svg", {
      viewBox: `0 0 ${width} ${height + top + 42}`, role: "img",
      style: `min-width:${Math.min(width, 90 * columns.length)}px;width:100%;max-height:560px`,
      "aria-label": `how ${columns.length} groupings followed each other`,
    });
    drawing.append(picture("defs", {}, picture("pattern", {
      id: "mixed", width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)",
    }, picture("rect", { width: 6, height: 6, fill: "var(--page)" }),
    picture("line", { x1: 0, y1: 0, x2: 0, y2: 6, stroke: "currentColor", "stroke-width": 2 }))));
    ribbons.forEach(([c, state, a, b, thickness, size]) => {
      const [x1, x2] = [left(c) + half, left(c + 1) - half];
      const middle = (x1 + x2) / 2;
      const [p, q, r, s] = [a, b, b + thickness, a + thickness].map(down);
      const path = `M${x1},${p}C${middle},${p} ${middle},${q} ${x2},${q}V${r}`
        + `C${middle},${r} ${middle},${s} ${x1},${s}Z`;
      const who = run.known ? `of state ${state}` : state < 0 ? "without a group" : `of group ${state}`;
      drawing.append(picture("path", { d: path, fill: stateColour(state), "fill-opacity": 0.6 },
        hint(`${size} observation${size === 1 ? "" : "s"} ${who}`)));
    });
    columns.forEach((column, c) => {
      column.blocks.forEach((block) => {
        const tall = (block.bottom - block.top) * height;
        const fill = block.mixed ? "url(#mixed)" : block.group < 0 ? data.unseenColour : "var(--page)";
        const kind = { "-1": "not seen yet: ", "-2": "each alone: " }[block.group] || "";
        drawing.append(picture("rect", {
          x: left(c) - half, y: down(block.top), width: 2 * half, height: tall, fill,
          stroke: "currentColor", "stroke-width": 0.8,
        }, hint(`${kind}${block.members}`)));
        if (tall >= 13) {
          const upright = block.group < 0 && tall > 50;
          const [x, y] = [left(c), down((block.top + block.bottom) / 2)];
          if (block.mixed) {
            drawing.append(picture("rect", {
              x: x - half + 1, y: y - 6, width: 2 * half - 2, height: 12, fill: "var(--page)",
            }));
          }
          drawing.append(text(x, y + (upright ? 0 : 4), upright ? block.label : block.label.split(" ")[0], {
            "font-size": 10, "pointer-events": "none",
            ...(block.group < 0 ? { fill: "#000" } : {}),
            ...(upright ? { transform: `rotate(-90 ${x} ${y})`, "dominant-baseline": "central" } : {}),
          }));
        }
      });
      drawing.append(
        text(left(c), 18, `${column.groups}`, { "font-size": 15, "font-weight": 600 }),
        text(left(c), top + height + 18, `epoch ${number(column.epoch)}`),
        text(left(c), top + height + 33, `step ${number(column.step)}`),
      );
    });
    $("flow").replaceChildren(drawing);
  };

  const drawEmission = (run) => {
    const shown = run.emission;
    $("emission").hidden = !shown;
    if (!shown) {
      $("emission-note").textContent = run.known
        ? "Too many observations to draw one by one." : "This world has no hidden states to compare with.";
      return;
    }
    $("emission-note").textContent = "Observations, sorted by true state and then by group; the darker, the more "
      + "often its state shows it. A group has the colour of the state that most of it belongs to.";
    const { state, chance, group } = shown;
    const order = state.map((_, y) => y)
      .sort((a, b) => state[a] - state[b] || group[a] - group[b] || a - b);
    const tally = {};
    group.forEach((g, y) => {
      const row = (tally[g] = tally[g] || {});
      row[state[y]] = (row[state[y]] || 0) + 1;
    });
    const likeness = (g) => (g < 0 ? -1
      : Number(Object.entries(tally[g]).reduce((best, now) => (now[1] > best[1] ? now : best))[0]));
    const states = Math.max(...state) + 1;
    const cell = Math.max(3, Math.min(26, 900 / order.length));
    const [left, tall] = [64, states > 20 ? 8 : 20];
    const width = left + cell * order.length + 4;
    const bottom = 34 + states * tall;
    const drawing = picture("svg", {
      viewBox: `0 0 ${width} ${bottom + 44}`, role: "img", "aria-label": "emission matrix and groups",
      style: `min-width:${Math.min(width, 640)}px;width:100%;max-width:${width}px`,
    });
    const most = Math.max(...chance);
    const box = (k, y, height, fill, words, more) => drawing.append(picture("rect",
      { x: left + k * cell, y, width: cell, height, fill, ...more }, hint(words)));
    drawing.append(picture("rect", {
      x: left, y: 30, width: cell * order.length, height: states * tall, fill: "var(--page)", stroke: "var(--line)",
    }));
    const strip = (y, labels, fills, name) => {
      drawing.append(text(left - 8, y + 15, name, { "text-anchor": "end" }));
      let start = 0;
      order.forEach((observation, k) => {
        box(k, y, 20, stateColour(fills[k]), `observation ${observation}: ${name} ${labels[k]}`);
        if (k + 1 === order.length || labels[k + 1] !== labels[k]) {
          const wide = (k + 1 - start) * cell;
          drawing.append(picture("line", {
            x1: left + (k + 1) * cell, x2: left + (k + 1) * cell, y1: y, y2: y + 20, stroke: "var(--page)", "stroke-width": 2,
          }));
          if (wide >= 14) {
            drawing.append(text(left + start * cell + wide / 2, y + 14, labels[k] < 0 ? "-" : `${labels[k]}`,
              { fill: "#000", "pointer-events": "none", "font-weight": 600 }));
          }
          start = k + 1;
        }
      });
    };
    const truths = order.map((y) => state[y]);
    strip(4, truths, truths, "state");
    order.forEach((y, k) => box(k, 30 + state[y] * tall, tall, "currentColor",
      `state ${state[y]} shows observation ${y} with chance ${chance[y]}`,
      { "fill-opacity": (0.06 + 0.94 * Math.sqrt(chance[y] / most)).toFixed(3) }));
    const found = order.map((y) => group[y]);
    strip(bottom + 2, found, found.map(likeness), "group");
    if (cell >= 14) {
      order.forEach((y, k) => drawing.append(text(left + (k + 0.5) * cell, bottom + 36, `${y}`, { "font-size": 9 })));
    }
    $("emission").replaceChildren(drawing);
  };

  const drawStory = () => {
    const run = data.runs.find((r) =>
      r.panel === chosen.panel && r.agent === chosen.agent && r.seed === chosen.seed);
    const final = (name) => number(run[name][run[name].length - 1]);
    const { exact, refines, steps_to_exact: since, seconds } = run.facts;
    const verdict = !run.known ? "" : exact ? `the true grouping from step ${number(since)} on`
      : refines ? "no group mixes hidden states, but some are still apart" : "some group mixes hidden states";
    $("run-facts").textContent = [
      `${data.agents[run.agent].name} in ${data.panels[run.panel]}, seed ${run.seed}`,
      `regret ${final("regret")}, pseudo-regret ${final("pseudo_regret")}`,
      `groups at the end: ${final("n_clusters")}`, verdict,
      `changes of the grouping: ${number(run.changes)}`, `wall time: ${number(seconds)} s`,
    ].filter(Boolean).join(" · ");
    drawFlow(run);
    drawEmission(run);
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
      });
      made.value = String(chosen[key]);
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
