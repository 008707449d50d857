// The numbers that tell at a glance how the server is.

import { byId, h, setText } from "./dom.js";
import { count, counted, duration, percent } from "./format.js";
import { ratio } from "./history.js";

/** From here on the alert rules warn of thrashing, and batch requests are refused. */
const THRASHING = 0.2;
const FULL = 0.85;

export class Tiles {
  constructor() {
    const tiles = ["Hit ratio", "First token, hit", "First token, miss", "Running", "Pressure", "Thrash"];
    [this.hits, this.warm, this.cold, this.running, this.pressure, this.thrash] = tiles.map((name) => new Tile(name));
    const all = [this.hits, this.warm, this.cold, this.running, this.pressure, this.thrash];
    byId("tiles").append(...all.map((tile) => tile.element));
  }

  update(state, history, spanS) {
    const total = history.totals(spanS);
    const lately = `last ${Math.round(spanS / 60)} min`;
    const hits = ratio(total.hit_tokens, total.prompt_tokens);
    this.hits.set(percent(hits), `${lately}; ${percent(state.counts.hit_ratio)} since start`, { share: hits ?? 0, good: true });
    this.warm.set(duration(ratio(total.warm_ttft_s, total.warm_requests)), `mean of ${counted(total.warm_requests, "request")}, ${lately}`);
    this.cold.set(duration(ratio(total.cold_ttft_s, total.cold_requests)), `mean of ${counted(total.cold_requests, "request")}, ${lately}`);
    this.setRunning(state.scheduler);
    this.setPressure(state.healthy ? state.pressure : null);
    this.setThrash(total, lately);
  }

  setRunning(scheduler) {
    const waiting = Object.values(scheduler.waiting).reduce((a, b) => a + b, 0);
    this.running.set(count(scheduler.running), waiting ? `${count(waiting)} waiting, the oldest for ${duration(scheduler.oldest_wait_s)}` : "none waiting");
  }

  setPressure(pressure) {
    if (pressure === null) return this.pressure.set("–", "not measured now");
    const why = pressure.index >= FULL ? `batch requests get 429: ${pressure.cause}` : pressure.index > 0 ? pressure.cause : "idle";
    return this.pressure.set(percent(pressure.index), why, { share: pressure.index, state: pressure.index >= FULL ? "bad" : "" });
  }

  setThrash(total, lately) {
    const share = ratio(total.lost_tokens, total.prefill_tokens);
    const bad = share !== null && share > THRASHING && total.evicted_tokens > 0;
    const what = bad ? "computed again soon after it was evicted: the pool is too small" : `of computed prompt tokens were cached before, ${lately}`;
    this.thrash.set(percent(share === null ? null : Math.min(1, share)), what, { share: Math.min(1, share ?? 0), state: bad ? "bad" : "" });
  }
}

class Tile {
  constructor(name) {
    this.value = h("p", { class: "big", text: "–" });
    this.note = h("p", { class: "muted note" });
    this.bar = h("div", { class: "bar" });
    this.meter = h("div", { class: "meter", "aria-hidden": "true", hidden: true }, this.bar);
    this.element = h("div", { class: "card tile" }, h("h2", { text: name }), this.value, this.meter, this.note);
  }

  /** `share` draws a meter; `state` "bad" says it in colour, the note says it in words. */
  set(value, note, { share = null, state = "", good = false } = {}) {
    setText(this.value, value);
    setText(this.note, note);
    this.element.dataset.state = state;
    this.meter.hidden = share === null;
    this.meter.classList.toggle("good", good);
    this.bar.style.width = `${100 * (share ?? 0)}%`;
  }
}
