// The tree of cached prefixes: bars whose length is tokens, whose colour is heat.

import { byId, h, label, Rows, setText, show } from "./dom.js";
import { count, counted, exact, tick } from "./format.js";
import { layout } from "./layout.js";

const LANE_PX = 24;
const GAP_PX = 2;

/** The share of the longest prompt from which on a bar has room for a name inside. */
const WIDE = 0.15;

/** Colour by the last use, in uses of the cache: at least so fresh for each step. */
const FRESH = [8, 40, 200, 1000];
/** Colour by requests that used it: at least so many for each step. */
const BUSY = [30, 10, 4, 2];

const LEGENDS = {
  use: ["just now", `${FRESH[0]}+ uses ago`, `${FRESH[1]}+`, `${FRESH[2]}+`, `${FRESH[3]}+`],
  hits: [`${BUSY[0]}+ requests`, `${BUSY[1]}+`, `${BUSY[2]}+`, `${BUSY[3]}+`, "1"],
};

export class Tree {
  /** `chosen` is called with the placed node that was chosen, or null. */
  constructor(chosen) {
    this.chosen = chosen;
    this.document = null;
    this.key = null;
    this.list = byId("tree");
    this.rows = new Rows(this.list, (placed) => new Bar(placed, (key) => this.choose(key, true)));
    this.list.addEventListener("keydown", (event) => this.move(event));
    for (const id of ["tree-colour", "tree-order"]) byId(id).addEventListener("change", () => this.draw());
  }

  update(document) {
    this.document = document;
    this.draw();
  }

  draw() {
    if (this.document === null) return;
    const { nodes, total_tokens: total, complete } = this.document;
    const { placed, rows, end } = layout(nodes, byId("tree-order").value === "name");
    this.placed = placed;
    this.end = end;
    const colour = byId("tree-colour").value;
    if (!placed.some((one) => one.key === this.key)) this.key = null;
    const focusable = this.key ?? placed[0]?.key;
    for (const one of placed) {
      Object.assign(one, { heat: heat(one.node, colour), isChosen: one.key === this.key, hasFocus: one.key === focusable, scale: end });
    }
    this.rows.update(placed, (one) => one.key);
    this.list.style.height = `${rows * LANE_PX}px`;
    show(byId("tree-empty"), placed.every((one) => one.isRoot));
    const shown = placed.filter((one) => !one.isRoot).length;
    setText(byId("tree-summary"), complete
      ? `${exact(total)} tokens in ${counted(shown, "node")}`
      : `the ${exact(shown)} nodes that were used last, of a tree of ${exact(total)} tokens`);
    this.axis(end);
    this.legend(colour);
    this.chosen(placed.find((one) => one.key === this.key) ?? null);
  }

  axis(end) {
    const step = roundStep(end / 5);
    const marks = [];
    for (let at = 0; at <= end; at += step) {
      marks.push(h("span", { text: at ? tick(at) : "0 tokens", style: { left: `calc(${at / end} * var(--tree-width))` } }));
    }
    byId("tree-axis").replaceChildren(...marks);
  }

  legend(colour) {
    const steps = LEGENDS[colour].map((text, i) => h("span", { class: "key" }, h("i", { class: `swatch heat${i}` }), text));
    const marks = [["pinned", "pinned"], ["published", "published"], ["locked", "in use"]]
      .map(([mark, text]) => h("span", { class: "key" }, h("i", { class: `mark ${mark}` }), text));
    const intro = h("span", { class: "muted", text: colour === "use" ? "last used" : "used by" });
    byId("tree-legend").replaceChildren(intro, ...steps, ...marks);
  }

  choose(key, focus) {
    this.key = key;
    this.draw();
    if (focus) this.rows.rows.get(key)?.element.focus({ preventScroll: false });
  }

  /** Arrow keys, as in every tree: up and down between lanes, left to the parent, right to a child. */
  move(event) {
    const at = this.placed.findIndex((one) => one.key === document.activeElement?.dataset.key);
    if (at < 0) return;
    const here = this.placed[at];
    const next = {
      ArrowDown: this.placed[at + 1],
      ArrowUp: this.placed[at - 1],
      ArrowLeft: here.parent,
      ArrowRight: here.children[0],
      Home: this.placed[0],
      End: this.placed.at(-1),
    };
    if (!(event.key in next)) return;
    event.preventDefault();
    if (next[event.key]) this.choose(next[event.key].key, true);
  }
}

/** One node, as a bar in the lanes of its leaves. */
class Bar {
  constructor(placed, choose) {
    this.text = h("span", { class: "bar-text" });
    this.marks = h("span", { class: "marks", "aria-hidden": "true" });
    this.element = h("div", { class: "node", role: "treeitem", data: { key: placed.key }, on: { click: () => choose(placed.key) } }, this.text);
  }

  update(placed) {
    const { node } = placed;
    const { element } = this;
    element.className = `node ${placed.isRoot ? "root" : `heat${placed.heat}`} ${placed.children.length || placed.isRoot ? "" : "leaf"}`;
    element.classList.toggle("chosen", placed.isChosen);
    element.classList.toggle("is-pinned", node.pinned && !placed.isRoot);
    element.setAttribute("aria-selected", placed.isChosen);
    element.setAttribute("aria-level", placed.level + 1);
    element.setAttribute("aria-label", spoken(placed));
    if (placed.children.length) element.setAttribute("aria-expanded", "true");
    else element.removeAttribute("aria-expanded");
    element.tabIndex = placed.hasFocus ? 0 : -1;
    const width = (tokens) => `calc(${tokens / placed.scale} * var(--tree-width))`;
    Object.assign(element.style, {
      left: placed.isRoot ? "0" : width(node.start),
      width: placed.isRoot ? "100%" : width(node.tokens),
      top: `${placed.row * LANE_PX}px`,
      height: `${(placed.isRoot ? 1 : placed.rows) * LANE_PX - GAP_PX}px`,
    });
    element.style.setProperty("--end", placed.end / placed.scale);
    const text = shownText(placed);
    if (this.shown !== text.join("\n")) {
      this.shown = text.join("\n");
      this.text.replaceChildren(this.marks, label(text[0]), h("span", { class: "tokens", text: text[1] }), h("span", { class: "tokens more", text: text[2] }));
    }
    const marks = marksOf(placed);
    if (this.marked !== marks.join()) {
      this.marked = marks.join();
      this.marks.replaceChildren(...marks.map((mark) => h("i", { class: `mark ${mark}` })));
    }
  }
}

function shownText(placed) {
  const { node } = placed;
  const left = placed.left > 0 ? `+${count(placed.left)} more` : "";
  if (placed.isRoot) return [node.tenant ? `tenant ${node.tenant}` : "published by the operator", "", left];
  const others = node.sessions.length > 1 ? ` +${node.sessions.length - 1}` : "";
  const isWide = !placed.children.length || node.tokens > WIDE * placed.scale;
  return [isWide ? `${placed.name}${others}` : "", count(node.tokens), left];
}

function marksOf({ node, isRoot }) {
  if (isRoot) return [];
  const keepers = node.pinned || node.published ? 1 : 0; // a pin is a lock, too
  return ["pinned", "published", "locked"].filter((mark) => node[mark] && (mark !== "locked" || node.locks > keepers));
}

function spoken(placed) {
  const { node } = placed;
  if (placed.isRoot) return shownText(placed).filter(Boolean).join(" ");
  const facts = [
    placed.name, `tokens ${exact(node.start)} to ${exact(placed.end)}`, counted(node.hits, "request"),
    node.pinned && "pinned", node.published && "published", placed.left > 0 && `${count(placed.left)} branches not shown`,
  ];
  return facts.filter(Boolean).join(", ");
}

function heat(node, colour) {
  const step = colour === "use"
    ? FRESH.findIndex((most) => node.uses_ago < most)
    : BUSY.findIndex((least) => node.hits >= least);
  return step < 0 ? 4 : step;
}

/** A step between marks that is easy to read. */
function roundStep(least) {
  const power = 10 ** Math.floor(Math.log10(Math.max(1, least)));
  return Math.max(1, [1, 2, 5, 10].find((f) => f * power >= least) * power);
}
