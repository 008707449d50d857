// What is known of the prefix that was chosen, and what can be done with it.

import { byId, h, label } from "./dom.js";
import { bytes, count, counted, exact } from "./format.js";

export class Details {
  /** `actions`: `pin(placed)`, `unpin(pin)`, `prune(selector, words)`, `text(placed)`. */
  constructor(actions) {
    this.actions = actions;
    this.element = byId("details");
    this.drawn = null;
  }

  /** Show a placed node (null: none), the pins there are, and bytes per token (or null). */
  update(placed, pins, bytesPerToken) {
    const drawn = JSON.stringify([placed && [placed.key, placed.node], pins, bytesPerToken]);
    if (drawn === this.drawn) return; // so that a button under the pointer stays
    this.drawn = drawn;
    if (placed === null) {
      this.element.replaceChildren(h("p", { class: "muted", text: "Choose a prefix to see what it is, and to pin or prune it." }));
    } else if (placed.isRoot) {
      this.element.replaceChildren(...this.root(placed));
    } else {
      this.element.replaceChildren(...this.node(placed, pins, bytesPerToken));
    }
  }

  root({ node }) {
    if (!node.tenant) {
      return [h("h3", { text: "Published by the operator" }), h("p", { class: "muted", text: "All tenants may start from these prefixes." })];
    }
    return [
      h("h3", {}, "Tenant ", label(node.tenant)),
      h("p", { class: "muted", text: "All that is cached of one tenant lies below; no other tenant can read it." }),
      h("div", { class: "buttons" }, this.pruneButton({ by: "tenant", tenant: node.tenant }, ["all of tenant", node.tenant])),
    ];
  }

  node(placed, pins, bytesPerToken) {
    const { node } = placed;
    const facts = [
      ["Tenant", node.tenant ? label(node.tenant) : "operator"],
      ["Tokens", `${exact(node.tokens)}, from ${exact(node.start)} to ${exact(placed.end)}`],
      ["Memory", bytesPerToken === null ? null : bytes(node.tokens * bytesPerToken)],
      ["Used by", counted(node.hits, "request")],
      ["Last used", node.uses_ago ? `${counted(node.uses_ago, "use")} of the cache ago` : "by the last request"],
      ["Held by", node.locks ? counted(node.locks, "request or pin", "requests or pins") : "nobody: it may be evicted"],
      ["Branches", node.children ? count(node.children) : "none"],
      ["Sessions", node.sessions.length ? labels(node.sessions) : null],
      ["Tags", node.tags.length ? labels(node.tags) : null],
    ].filter(([, value]) => value !== null);
    const list = facts.flatMap(([name, value]) => [h("dt", { text: name }), h("dd", {}, value)]);
    const parts = [h("h3", {}, placed.name ? label(placed.name) : "A prefix that several share"), h("dl", { class: "facts" }, ...list)];
    const here = pins.filter((pin) => (node.pins ?? []).includes(pin.handle));
    for (const pin of here) parts.push(this.pinned(pin));
    parts.push(h("div", { class: "buttons" }, ...this.buttons(placed)));
    this.textPlace = h("div", { class: "prompt-text" });
    parts.push(this.textPlace);
    return parts;
  }

  pinned(pin) {
    return h("p", { class: "pin-line" }, h("i", { class: "mark pinned", "aria-hidden": "true" }), " Pinned as ", label(pin.name ?? pin.handle), " ",
      h("button", { type: "button", text: "Unpin", on: { click: () => this.actions.unpin(pin) } }));
  }

  buttons(placed) {
    const { node } = placed;
    const made = [];
    if (node.tenant && !node.published) {
      made.push(button("Pin…", () => this.actions.pin(placed)));
      made.push(button("Prune this branch…", () => this.actions.pruneBranch(placed), "danger"));
    }
    if (node.tenant) {
      for (const session of node.sessions) made.push(this.pruneButton({ by: "session", session, tenant: node.tenant }, ["session", session]));
      for (const tag of node.tags) made.push(this.pruneButton({ by: "tag", tag, tenant: node.tenant }, ["tag", tag]));
      made.push(button("Show its beginning", () => this.actions.text(placed, this.textPlace)));
    }
    return made;
  }

  pruneButton(selector, [kind, name]) {
    return h("button", { type: "button", class: "danger", on: { click: () => this.actions.prune(selector, kind, name) } }, `Prune ${kind} `, label(name), "…");
  }
}

const button = (text, click, kind = "") => h("button", { type: "button", class: kind, text, on: { click } });

const labels = (names) => h("span", { class: "labels" }, ...names.map((name) => label(name, "chip")));
