// The last requests: what each read from the cache, and why no more.

import { byId, h, label, Rows, setText, show } from "./dom.js";
import { count, counted, duration, exact, percent, time } from "./format.js";
import { causeOf, OUTCOMES } from "./words.js";

const SHOWN = 100;

export class Requests {
  constructor() {
    this.rows = new Rows(byId("requests"), requestRow);
    this.clear();
  }

  clear() {
    this.kept = [];
    this.last = 0;
  }

  /** Take a page of requests: newest first, behind `last`. */
  add(page) {
    if (page.last < this.last) this.clear(); // numbers began anew
    const newer = page.requests.filter((row) => row.number > this.last);
    this.kept = [...newer, ...this.kept].slice(0, SHOWN);
    this.last = page.last;
  }

  get tenants() {
    return new Set(this.kept.map((row) => row.tenant));
  }

  draw(tenant) {
    const shown = this.kept.filter((row) => tenant === null || row.tenant === tenant);
    this.rows.update(shown, (row) => row.number);
    show(byId("requests-empty"), !shown.length);
    const read = shown.reduce((sum, row) => sum + row.cached_tokens, 0);
    const asked = shown.reduce((sum, row) => sum + row.prompt_tokens, 0);
    setText(byId("requests-summary"), shown.length ? `${counted(shown.length, "request")}; ${asked ? percent(read / asked) : "nothing"} of their prompts read from the cache` : "");
  }
}

function requestRow(row) {
  const [cause, why] = causeOf(row);
  const lost = row.lost_tokens ? h("span", { class: "bad-text", text: ` ${exact(row.lost_tokens)} lost` }) : null;
  const element = h("tr", { class: row.outcome === "done" ? "" : "went-wrong" },
    cell("Time", "nowrap", time(row.began_unix_s)),
    cell("Tenant", "", label(row.tenant)),
    cell("Session", "", row.session === null ? "–" : label(row.session)),
    cell("Class", "", row.priority),
    cell("Read from the cache", "", hit(row)),
    h("td", { data: { label: "Why no more" }, title: why }, cause || "–", lost),
    cell("First token", "number", timed(row.ttft_s, row)),
    cell("All", "number", duration(row.seconds)),
    cell("Answer", "number", row.completion_tokens || row.outcome === "done" ? counted(row.completion_tokens, "token") : "–"),
    h("td", { data: { label: "End" }, title: ended(row) }, howEnded(row)));
  return { element, update() {} };
}

function hit(row) {
  if (!row.prompt_tokens) return "–";
  const share = row.cached_tokens / row.prompt_tokens;
  const restored = row.restored_tokens ? `, ${count(row.restored_tokens)} of it from a slower tier` : "";
  return h("span", { class: "hit" },
    h("span", { class: "meter good", "aria-hidden": "true" }, h("span", { class: "bar", style: { width: `${100 * share}%` } })),
    h("span", { text: `${exact(row.cached_tokens)} of ${exact(row.prompt_tokens)}${restored}` }));
}

function timed(ttft, row) {
  const parts = row.queue_s === null ? null : `waited ${duration(row.queue_s)}, read its prompt in ${duration(row.prefill_s)}, answered in ${duration(row.decode_s)}`;
  return h("span", { title: parts, text: duration(ttft) });
}

function howEnded(row) {
  if (row.outcome === "done") return row.finish.join(", ");
  if (row.finish.includes("revoked")) return "key revoked";
  return `${OUTCOMES[row.outcome] ?? row.outcome}${row.code ? `: ${row.code}` : ""}`;
}

const ended = (row) => `${row.endpoint}, HTTP ${row.status}, ${row.id}, ${row.request_id}${row.key_id ? `, key ${row.key_id}` : ""}`;

function cell(name, kind, ...children) {
  return h("td", { class: kind, data: { label: name } }, ...children);
}
