// Sessions and pins.

import { byId, h, label, Rows, setText, show } from "./dom.js";
import { count, counted, duration, exact } from "./format.js";

export class Sessions {
  constructor(prune) {
    this.rows = new Rows(byId("sessions"), (session) => sessionRow(session, prune));
  }

  update(sessions) {
    const named = sessions.filter((one) => one.session !== null || one.tags.length);
    this.rows.update(named, (one) => JSON.stringify([one.tenant, one.session, one.session === null ? one.tags : null]));
    show(byId("sessions-empty"), !named.length);
    setText(byId("sessions-summary"), named.length ? counted(named.length, "session") : "");
  }
}

function sessionRow(first, prune) {
  const tokens = cell("Cached tokens", "number");
  const requests = cell("Requests", "number");
  const hint = cell("Hint");
  const tags = h("span", { class: "labels" });
  const name = first.session === null ? h("span", { class: "muted", text: "without a name" }) : label(first.session);
  const [by, value] = first.session === null ? ["tag", first.tags[0]] : ["session", first.session];
  const does = h("button", { type: "button", class: "quiet danger", text: "Prune…", "aria-label": `Prune ${by} ${value}`, on: { click: () => prune({ by, [by]: value, tenant: first.tenant }, by, value) } });
  const element = h("tr", {}, h("td", { data: { label: "Session" } }, name, " ", tags), cell("Tenant", "", label(first.tenant)), tokens, requests, hint, h("td", { class: "actions" }, does));
  return {
    element,
    update(session) {
      setText(tokens, session.tokens ? exact(session.tokens) : "none");
      setText(requests, count(session.requests));
      setText(hint, session.done ? "done" : session.expected ? "expected soon" : "–");
      const shown = session.tags.join("\n");
      if (tags.dataset.shown !== shown) {
        tags.dataset.shown = shown;
        tags.replaceChildren(...session.tags.map((tag) => label(tag, "chip")));
      }
    },
  };
}

export class Pins {
  constructor(unpin) {
    this.rows = new Rows(byId("pins"), (pin) => pinRow(pin, unpin));
  }

  update(pins, published) {
    const all = [...pins, ...published.map((one) => ({ ...one, isPublished: true }))];
    this.rows.update(all, (one) => one.handle);
    show(byId("pins-empty"), !all.length);
    setText(byId("pins-summary"), all.length ? `${counted(pins.length, "pin")}, ${counted(published.length, "published prefix", "published prefixes")}` : "");
  }
}

function pinRow(first, unpin) {
  const name = h("bdi", { class: "label" });
  const tokens = cell("Tokens", "number");
  const ends = cell("Ends");
  const does = first.isPublished ? null : h("button", { type: "button", class: "quiet", text: "Unpin", "aria-label": `Unpin ${first.name ?? first.handle}`, on: { click: () => unpin(first) } });
  const mark = h("i", { class: `mark ${first.isPublished ? "published" : "pinned"}`, "aria-hidden": "true" });
  const tenant = cell("Tenant", "", first.isPublished ? "all" : label(first.tenant));
  const element = h("tr", {}, h("td", { data: { label: "Pin" } }, mark, " ", name), tenant, tokens, ends, h("td", { class: "actions" }, does));
  return {
    element,
    update(pin) {
      setText(name, pin.isPublished ? "published" : (pin.name ?? pin.handle));
      name.title = pin.handle;
      setText(tokens, exact(pin.tokens));
      setText(ends, pin.isPublished ? "when unpublished" : pin.expires_in_s === null ? "when unpinned" : `in ${duration(pin.expires_in_s)} if not used`);
    },
  };
}

function cell(name, kind = "", ...children) {
  return h("td", { class: kind, data: { label: name } }, ...children);
}
