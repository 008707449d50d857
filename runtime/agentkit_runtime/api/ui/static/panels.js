// Which charts there are.

import { Chart } from "./charts.js";
import { byId } from "./dom.js";
import { count, duration, percent } from "./format.js";
import { rate, ratio } from "./history.js";

const perSecond = (value) => (value === null ? "–" : `${count(Math.round(value))}/s`);

function charts() {
  return [
    new Chart({
      title: "Hit ratio", unit: "% of prompt tokens", top: 100, joined: true, format: (v) => percent(v === null ? null : v / 100),
      series: [{ name: "read from the cache", colour: "c1", area: true, value: (p) => scaled(ratio(p.hit_tokens, p.prompt_tokens), 100) }],
    }),
    new Chart({
      title: "Time to first token", unit: "ms, mean", joined: true, format: (v) => duration(v === null ? null : v / 1000), least: 10,
      large: { from: 4000, unit: "s, mean", by: 1000 },
      series: [
        { name: "hit", colour: "c1", value: (p) => scaled(ratio(p.warm_ttft_s, p.warm_requests), 1000) },
        { name: "miss", colour: "c2", value: (p) => scaled(ratio(p.cold_ttft_s, p.cold_requests), 1000) },
      ],
    }),
    new Chart({
      title: "Throughput", unit: "tokens/s", format: perSecond, least: 10,
      series: [
        { name: "from the cache", colour: "c1", value: (p) => rate(p.hit_tokens, p) },
        { name: "computed", colour: "c2", value: (p) => rate(p.prefill_tokens, p) },
        { name: "generated", colour: "c3", value: (p) => rate(p.generated_tokens, p) },
      ],
    }),
    new Chart({
      title: "Requests", unit: "mean", format: (v) => (v === null ? "–" : Number(v.toPrecision(3)).toString()), least: 4,
      series: [
        { name: "running", colour: "c1", area: true, value: (p) => p.running },
        { name: "waiting", colour: "c2", value: (p) => p.waiting },
      ],
    }),
    new Chart({
      title: "KV pool", unit: "tokens", format: count, stacked: true, least: 100,
      series: [
        { name: "pinned", colour: "c4", value: (p) => p.pinned },
        { name: "in use", colour: "c2", value: (p) => (p.held === null ? null : Math.max(0, p.held - p.pinned)) },
        { name: "cached", colour: "c1", value: (p) => p.cached },
      ],
    }),
    new Chart({
      title: "Evicted and computed again", unit: "tokens/s", format: perSecond, least: 10,
      series: [
        { name: "evicted", colour: "c3", value: (p) => rate(p.evicted_tokens, p) },
        { name: "computed again", colour: "c2", area: true, value: (p) => rate(p.lost_tokens, p) },
      ],
    }),
  ];
}

const scaled = (value, factor) => (value === null ? null : factor * value);

export class Panels {
  constructor() {
    this.charts = charts();
    byId("charts").append(...this.charts.map((chart) => chart.element));
  }

  update(history, spanS) {
    const parts = history.parts(spanS);
    for (const chart of this.charts) chart.update(parts);
  }
}
