// Small charts over time: lines or stacked areas, with axes, units and a readout.

import { h, setText, svg } from "./dom.js";
import { tick, time } from "./format.js";

const HEIGHT = 148;
const LEFT = 40;
const RIGHT = 8;
const TOP = 8;
const BOTTOM = 22;

/**
 * One chart. `series`: `{ name, value(part), colour, area? }`, where `value` may be null. `stacked`
 * piles areas on each other; `joined` draws a line from each value to the next one there is, however
 * long nothing was known between them. `unit` names the axis, `format` writes a value, `top` fixes its end.
 * An axis that ends at `large.from` or above is written in `large.unit`, each of `large.by`.
 */
export class Chart {
  constructor({ title, unit, series, format, top = null, stacked = false, joined = false, least = 1, large = null }) {
    Object.assign(this, { title, unit, series, format, top, stacked, joined, least, large });
    this.parts = [];
    this.at = null;
    this.drawing = svg("svg", { role: "img", tabindex: "0", height: HEIGHT });
    this.keys = series.map((one) => h("b", { class: "value" }));
    this.when = h("span", { class: "muted when" });
    this.axisUnit = h("span", { class: "muted", text: unit });
    const legend = series.map((one, i) =>
      h("span", { class: "key" }, h("i", { class: `swatch ${one.colour}` }), `${one.name} `, this.keys[i]));
    this.element = h("figure", { class: "card chart" },
      h("figcaption", {}, h("h2", { text: title }), this.axisUnit, this.when),
      this.drawing,
      h("p", { class: "legend" }, ...legend));
    this.listen();
    new ResizeObserver(() => this.draw()).observe(this.element);
  }

  update(parts) {
    this.parts = parts;
    this.values = this.series.map((one) => parts.map(one.value));
    this.draw();
  }

  listen() {
    this.drawing.addEventListener("pointermove", (event) => this.point(event.offsetX));
    this.drawing.addEventListener("pointerleave", () => this.choose(null));
    this.drawing.addEventListener("blur", () => this.choose(null));
    this.drawing.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!step || !this.parts.length) return;
      event.preventDefault();
      this.choose((this.at ?? this.parts.length) + step);
    });
  }

  point(x) {
    const share = (x - LEFT) / (this.width - LEFT - RIGHT);
    this.choose(Math.round(share * (this.parts.length - 1)));
  }

  choose(at) {
    this.at = at === null ? null : Math.min(Math.max(at, 0), this.parts.length - 1);
    this.draw();
  }

  draw() {
    this.width = Math.max(160, this.drawing.parentElement?.clientWidth - 32 || 0);
    if (!this.parts.length) return;
    const tops = this.levels();
    const highest = Math.max(this.least, ...tops.flat().filter((v) => v !== null));
    this.end = this.top ?? niceEnd(highest);
    this.drawing.setAttribute("width", this.width);
    this.drawing.setAttribute("viewBox", `0 0 ${this.width} ${HEIGHT}`);
    this.drawing.replaceChildren(...this.axes(), ...this.shapes(tops), ...this.cursor(tops));
    this.tell();
  }

  /** Where each series' line runs: its values, or with `stacked` those on top of the ones before. */
  levels() {
    if (!this.stacked) return this.values;
    const below = this.parts.map(() => 0);
    return this.values.map((values) =>
      values.map((value, i) => (value === null ? null : (below[i] += value))));
  }

  x(i) {
    return LEFT + (i / (this.parts.length - 1)) * (this.width - LEFT - RIGHT);
  }

  y(value) {
    return HEIGHT - BOTTOM - (value / this.end) * (HEIGHT - BOTTOM - TOP);
  }

  axes() {
    const isLarge = this.large !== null && this.end >= this.large.from;
    const by = isLarge ? this.large.by : 1;
    setText(this.axisUnit, isLarge ? this.large.unit : this.unit);
    const marks = [];
    for (const share of [0, 0.5, 1]) {
      const y = this.y(share * this.end);
      marks.push(svg("line", { class: "grid", x1: LEFT, x2: this.width - RIGHT, y1: y, y2: y }));
      marks.push(svg("text", { x: LEFT - 6, y: y + 4, "text-anchor": "end" }, tick((share * this.end) / by)));
    }
    const spanS = ((this.parts.at(-1).endS - this.parts[0].endS) * this.parts.length) / (this.parts.length - 1);
    const labels = [[0, "start", `${spanText(spanS)} ago`], [1, "end", "now"]];
    for (const [share, anchor, text] of labels) {
      const x = this.x(share * (this.parts.length - 1));
      marks.push(svg("text", { x, y: HEIGHT - 6, "text-anchor": anchor }, text));
    }
    return marks;
  }

  shapes(tops) {
    const order = [...tops.keys()];
    if (this.stacked) order.reverse(); // the lower ones in front
    return order.flatMap((s) => this.shape(tops[s], this.series[s]));
  }

  shape(values, { colour, area }) {
    const shapes = [];
    for (const run of this.joined ? joinedRun(values) : runs(values)) {
      const points = run.map((i) => `${this.x(i).toFixed(1)},${this.y(values[i]).toFixed(1)}`);
      if (area || this.stacked) {
        const base = this.y(0).toFixed(1);
        const closed = [`${this.x(run[0]).toFixed(1)},${base}`, ...points, `${this.x(run.at(-1)).toFixed(1)},${base}`];
        shapes.push(svg("polygon", { class: `${this.stacked ? "pile" : "area"} ${colour}`, points: closed.join(" ") }));
      }
      if (!this.stacked) shapes.push(svg("polyline", { class: `line ${colour}`, points: points.join(" ") }));
      const dots = this.joined || run.length === 1 ? run : [];
      shapes.push(...dots.map((i) => svg("circle", { class: `dot ${colour}`, cx: this.x(i), cy: this.y(values[i]), r: 2.2 })));
    }
    return shapes;
  }

  cursor(tops) {
    if (this.at === null) return [];
    const x = this.x(this.at);
    const dots = this.series.flatMap((one, s) => {
      const value = tops[s][this.at];
      return value === null ? [] : [svg("circle", { class: `dot ${one.colour}`, cx: x, cy: this.y(value), r: 3.5 })];
    });
    return [svg("line", { class: "cursor", x1: x, x2: x, y1: TOP, y2: HEIGHT - BOTTOM }), ...dots];
  }

  /** Values beside the names: at the cursor, or the latest that are known. */
  tell() {
    const read = (values) => values[this.at ?? values.findLastIndex((value) => value !== null)] ?? null;
    this.values.forEach((values, s) => setText(this.keys[s], this.format(read(values))));
    setText(this.when, this.at === null ? "" : time(this.parts[this.at].endS));
    const said = this.series.map((one, s) => `${one.name} ${this.format(read(this.values[s]))}`);
    this.drawing.setAttribute("aria-label", `${this.title}, ${this.unit}: ${said.join(", ")}`);
  }
}

const spanText = (s) => (s < 90 ? `${Math.round(s)} s` : `${Math.round(s / 60)} min`);

/** Runs of neighbours that have a value, as lists of places. */
function runs(values) {
  const found = [];
  values.forEach((value, i) => {
    if (value === null) return;
    if (i && values[i - 1] !== null) found.at(-1).push(i);
    else found.push([i]);
  });
  return found;
}

/** All places that have a value, as one run; none where there is no value. */
function joinedRun(values) {
  const known = [...values.keys()].filter((i) => values[i] !== null);
  return known.length ? [known] : [];
}

/** The next number above that is easy to read: 1, 2, 4, 5 or 10 times a power of ten. */
function niceEnd(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  const factor = [1, 2, 4, 5, 10].find((f) => f * power >= value * 0.999);
  return factor * power;
}
