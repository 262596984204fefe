"use strict";
// The graph of a model's states: around a circle, with the strongest moves between them.
romdp.stateGraph = (target, options) => {
  const { data, picture } = romdp;
  const nodes = data.order;
  const n = nodes.length;
  const LEAST = 0.01; // probability of a move that is drawn at all
  const MANY = 15; // beyond this many states only the strongest moves are drawn
  const percent = (share) => `${(100 * share).toFixed(share >= 0.0995 || !share ? 0 : 1)}%`;
  const around = new Set(nodes);

  const place = (width) => {
    const named = n > 1 && n <= 26 && width >= 560;
    const radius = n === 1 ? 0 : Math.max(60, Math.min(width / 2 - (named ? 135 : 34), 280));
    const largest = n === 1 ? 40 : Math.max(7, Math.min(30, (0.7 * Math.PI * radius) / n));
    const most = Math.max(...nodes.map((s) => data.states[s].share), 1e-12);
    const angles = nodes.map((_, k) => (2 * Math.PI * k) / n - Math.PI / 2);
    const heights = angles.map((angle) => radius * Math.sin(angle));
    const [top, bottom] = [Math.min(...heights), Math.max(...heights)];
    const centre = { x: width / 2, y: 55 - top };
    const at = new Map(nodes.map((s, k) => [s, {
      angle: angles[k], size: largest * (0.5 + 0.5 * Math.sqrt(data.states[s].share / most)),
      x: centre.x + radius * Math.cos(angles[k]), y: centre.y + heights[k],
    }]));
    return { width, height: bottom - top + 110, centre, named, at };
  };

  // Which moves are drawn: the strongest, and all from the state that is chosen.
  const choose = (laws, selected) => {
    const moves = [];
    nodes.forEach((s) => (laws[s] || []).forEach(([to, chance], k) => {
      if (to !== s && chance >= LEAST && around.has(to)) moves.push({ from: s, to, chance, first: k === 0 });
    }));
    moves.sort((a, b) => b.chance - a.chance);
    const most = n <= MANY ? Math.max(30, 5 * n) : Math.max(75, 2 * n);
    const strong = moves.filter((move, k) => k < most || move.first);
    const weight = (list) => list.reduce((sum, m) => sum + data.states[m.from].share * m.chance, 0);
    return {
      drawn: moves.filter((move) => strong.includes(move) || move.from === selected),
      strong: strong.length, all: moves.length, share: weight(strong) / (weight(moves) || 1),
    };
  };

  const ink = (hex) => {
    const [r, g, b] = [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
    return 0.299 * r + 0.587 * g + 0.114 * b > 120 ? "#000" : "#fff";
  };
  const towards = (p, q, distance) => {
    const far = Math.hypot(q.x - p.x, q.y - p.y) || 1;
    return { x: p.x + ((q.x - p.x) * distance) / far, y: p.y + ((q.y - p.y) * distance) / far };
  };
  // Where a move bends to. The way there and the way back must not cover each other, and among
  // many states none may pass over the nodes between its ends: there both bend inwards.
  const bendOf = (a, b, centre) => {
    const [dx, dy] = [b.x - a.x, b.y - a.y];
    const length = Math.hypot(dx, dy) || 1;
    const middle = { x: (a.x + b.x) / 2, y: (a.y + b.y) / 2 };
    const inwards = Math.hypot(centre.x - middle.x, centre.y - middle.y);
    const clockwise = (a.x - centre.x) * (b.y - centre.y) > (a.y - centre.y) * (b.x - centre.x);
    const pull = n <= 6 ? 0 : Math.min((clockwise ? 0.28 : 0.5) * length, 0.85 * inwards);
    const aside = (n <= 6 ? 0.13 : 0.04) * length;
    const pulled = towards(middle, centre, inwards > 1 ? pull : 0);
    return { x: pulled.x - (dy / length) * aside, y: pulled.y + (dx / length) * aside };
  };
  const arrow = (drawing, move, selected) => {
    const [a, b] = [drawing.at.get(move.from), drawing.at.get(move.to)];
    const control = bendOf(a, b, drawing.centre);
    const mine = move.from === selected;
    const dim = selected !== null && !mine;
    const wide = 0.8 + 5 * move.chance;
    const head = 4 + 1.6 * wide;
    const start = towards(a, control, a.size + 5);
    const tip = towards(b, control, b.size + 6);
    const end = towards(b, control, b.size + 6 + head);
    const angle = (Math.atan2(tip.y - end.y, tip.x - end.x) * 180) / Math.PI;
    const shown = dim ? 0.08 : mine ? 0.95 : 0.14 + 0.6 * Math.sqrt(move.chance);
    const along = (t) => {
      const on = (p, q, r) => (1 - t) * (1 - t) * p + 2 * t * (1 - t) * q + t * t * r;
      return { x: on(start.x, control.x, end.x), y: on(start.y, control.y, end.y) };
    };
    return [picture("g", { class: mine ? "move mine" : "move", opacity: shown.toFixed(3) },
      picture("title", {}, `state ${move.from} to state ${move.to}: ${percent(move.chance)}`),
      picture("path", {
        d: `M${start.x},${start.y}Q${control.x},${control.y} ${end.x},${end.y}`, fill: "none",
        "stroke-width": wide.toFixed(2),
      }),
      picture("path", {
        d: `M0,0L${-head},${head / 2.2}L${-head},${-head / 2.2}Z`, class: "head",
        transform: `translate(${tip.x},${tip.y})rotate(${angle})`,
      })), along];
  };
  // Write a probability beside its arrow where there is room for it.
  const label = (drawing, move, along, taken) => {
    const free = (p) => taken.every((q) => Math.abs(p.x - q.x) > 30 || Math.abs(p.y - q.y) > 13)
      && [...drawing.at.values()].every((spot) => Math.hypot(p.x - spot.x, p.y - spot.y) > spot.size + 16);
    const found = [0.62, 0.5, 0.74, 0.4, 0.3].map(along).find(free);
    if (!found) return [];
    taken.push(found);
    return [picture("text", { x: found.x, y: found.y + 4, class: "chance" }, percent(move.chance))];
  };

  const node = (s, spot, drawing, stay, selected) => {
    const fill = options.colourOf(s);
    const state = data.states[s];
    const ring = spot.size + 3.5;
    const round = 2 * Math.PI * ring;
    const group = picture("g", {
      class: `node${s === selected ? " chosen" : ""}`, tabindex: 0, role: "button", "data-state": s,
      transform: `translate(${spot.x},${spot.y})`, "aria-label": `state ${s}, ${percent(state.share)} of the steps`,
    }, picture("title", {}, `state ${s}: ${percent(state.share)} of the steps, stays with ${percent(stay)}`),
    picture("circle", { r: ring, class: "ring" }),
    picture("circle", {
      r: ring, class: "stay", transform: "rotate(-90)", "stroke-dasharray": `${round * stay} ${round}`,
    }),
    picture("circle", { r: spot.size, fill }),
    picture("text", {
      y: Math.min(5, spot.size * 0.38), fill: ink(fill), "font-size": Math.max(8, Math.min(15, spot.size)),
    }, `${s}`));
    if (drawing.named) {
      const [c, up] = [Math.cos(spot.angle), Math.sin(spot.angle)];
      const away = spot.size + 12;
      const name = options.nameOf(s);
      group.append(picture("text", {
        class: "outside", x: c * away, y: up * (away + (Math.abs(c) < 0.3 ? 8 : 0)) + 4,
        style: `text-anchor:${Math.abs(c) < 0.3 ? "middle" : c > 0 ? "start" : "end"}`,
      }, name.length > 17 ? `${name.slice(0, 16)}…` : name));
    }
    group.addEventListener("click", () => options.select(s));
    group.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") {
        event.preventDefault();
        options.select(s);
      }
    });
    return group;
  };

  // laws[s] lists [state, chance] from state s, or is null where nothing is known.
  return (laws, selected) => {
    const width = Math.max(260, target.clientWidth);
    const drawing = place(width);
    const found = choose(laws, selected);
    const made = picture("svg", {
      viewBox: `0 0 ${width} ${drawing.height}`, width, height: drawing.height, role: "group",
      "aria-label": `${n} states and the moves between them`,
    });
    const [labels, taken] = [[], []];
    const mine = (move) => move.from === selected;
    const lines = found.drawn.map((move) => {
      const [line, along] = arrow(drawing, move, selected);
      if (selected === null ? n <= 6 : mine(move) && move.chance >= 0.02) {
        labels.push(...label(drawing, move, along, taken));
      }
      return { line, last: mine(move) };
    }).reverse(); // the strongest on top, and those of the chosen state above all
    made.append(...[...lines].sort((a, b) => a.last - b.last).map(({ line }) => line));
    nodes.forEach((s) => {
      const stay = ((laws[s] || []).find(([to]) => to === s) || [s, 0])[1];
      const group = node(s, drawing.at.get(s), drawing, stay, selected);
      if (!laws[s]) group.classList.add("unknown");
      made.append(group);
    });
    made.append(...labels);
    target.replaceChildren(made);
    const unknown = nodes.filter((s) => !laws[s]).length;
    return [
      found.strong < found.all
        ? `Drawn: the ${found.strong} strongest of ${found.all} moves; they are ${percent(found.share)} of all moves to `
          + "other states. A chosen state shows all of its own."
        : `Drawn: every move of at least ${100 * LEAST}%.`,
      unknown ? `In ${unknown} state${unknown === 1 ? "" : "s"} (dashed) this was never tried.` : "",
    ].filter(Boolean).join(" ");
  };
};
