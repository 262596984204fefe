"use strict";
// What every page shares: its data, its theme, and Plotly in the colours of that theme.
const romdp = (() => {
  const root = document.documentElement;
  const data = JSON.parse(document.getElementById("data").textContent);
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const listeners = [];

  const isDark = () => root.dataset.theme === "dark";
  const setTheme = (dark) => {
    root.dataset.theme = dark ? "dark" : "light";
    listeners.forEach((listener) => listener());
  };
  root.dataset.theme = system.matches ? "dark" : "light";
  system.addEventListener("change", () => setTheme(system.matches));
  document.getElementById("theme").addEventListener("click", () => setTheme(!isDark()));
  // Paper is light and narrow: what is drawn is drawn again for it, and afterwards as it was.
  let chosen = false;
  window.addEventListener("beforeprint", () => {
    chosen = isDark();
    root.classList.add("printed");
    setTheme(false);
  });
  window.addEventListener("afterprint", () => {
    root.classList.remove("printed");
    setTheme(chosen);
  });

  const colour = (name) => getComputedStyle(root).getPropertyValue(`--${name}`).trim();

  // Layouts are nested objects; what the page says goes before what the shell says.
  const merge = (base, extra) => {
    const merged = { ...base };
    for (const [key, value] of Object.entries(extra || {})) {
      const nested = value && typeof value === "object" && !Array.isArray(value);
      merged[key] = nested ? merge(base[key] || {}, value) : value;
    }
    return merged;
  };

  const plot = (target, traces, layout) => {
    const axis = {
      gridcolor: colour("grid"), zerolinecolor: colour("line"), linecolor: colour("line"),
      tickformat: ",.6~g", automargin: true, fixedrange: window.matchMedia("(pointer: coarse)").matches,
    };
    const base = {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { color: colour("text"), family: "system-ui, sans-serif", size: 12 },
      margin: { l: 55, r: 12, t: 26, b: 42 }, showlegend: false, hovermode: "closest",
      hoverlabel: { bgcolor: colour("page"), font: { color: colour("text") } },
      modebar: { bgcolor: "rgba(0,0,0,0)", color: colour("soft"), activecolor: colour("accent") },
      xaxis: axis, yaxis: axis,
      ...(root.classList.contains("printed") ? { width: target.clientWidth } : {}),
    };
    const settings = {
      responsive: true, displaylogo: false,
      modeBarButtons: [["toImage", "zoom2d", "pan2d", "resetScale2d"]],
    };
    return Plotly.react(target, traces, merge(base, layout), settings);
  };

  // Make an element: make("p", {className: "note"}, "text", other).
  const make = (tag, properties, ...children) => {
    const made = Object.assign(document.createElement(tag), properties);
    made.append(...children);
    return made;
  };
  const picture = (tag, attributes, ...children) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
    Object.entries(attributes || {}).forEach(([name, value]) => made.setAttribute(name, value));
    made.append(...children);
    return made;
  };
  const number = (value) => {
    if (value === null || value === undefined) return "-";
    const whole = Number.isInteger(value) || Math.abs(value) >= 1000;
    const digits = whole ? { maximumFractionDigits: 0 } : { maximumSignificantDigits: 4 };
    return value.toLocaleString("en", digits);
  };

  // A switch; `before` stands between its box and its text.
  const chip = (text, on, change, ...before) => {
    const box = make("input", { type: "checkbox", checked: on });
    box.addEventListener("change", () => change(box.checked));
    return make("label", { className: "chip" }, box, ...before, text);
  };
  // A menu of [value, text] pairs; `value` is chosen at first.
  const choice = (label, options, change, value = options[0][0]) => {
    const menu = make("select", { ariaLabel: label, title: label });
    menu.append(...options.map(([key, text]) => make("option", { value: key }, text)));
    menu.value = String(value);
    menu.addEventListener("change", () => change(menu.value));
    return menu;
  };
  // A table of strings and numbers, which are set to the right.
  const kindOf = (cell) => {
    if (typeof cell !== "string") return "number";
    return cell.length > 40 ? "words" : "";
  };
  // Where a screen is narrow, each row of a table with many columns is a list of its own.
  const stack = (made) => {
    const heads = [...made.tHead.rows[0].cells].map((head) => head.textContent);
    made.classList.toggle("wide", heads.length > 3);
    [...made.tBodies[0].rows].forEach((row) =>
      [...row.cells].forEach((cell, c) => { cell.dataset.label = heads[c]; }));
    return made;
  };
  document.querySelectorAll("main table").forEach(stack);
  const table = (headings, rows) => stack(make("table", {},
    make("thead", {}, make("tr", {}, ...headings.map((heading, c) => make("th", {
      scope: "col", className: rows.length && typeof rows[0][c] !== "string" ? "number" : "",
    }, heading)))),
    make("tbody", {}, ...rows.map((row) => make("tr", {}, ...row.map((cell) =>
      make("td", { className: kindOf(cell) }, typeof cell === "string" ? cell : number(cell))))))));

  const onTheme = (listener) => listeners.push(listener);
  return {
    data, isDark, onTheme, colour, plot, make, picture, number, chip, choice, stack, table,
  };
})();
