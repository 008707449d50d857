// What the server did lately: its samples of one second each, and sums over spans of them.

const KEPT_S = 900;

export class History {
  constructor() {
    this.samples = [];
  }

  /** The Unix time of the newest sample, to ask for what comes behind it. */
  get newestS() {
    return this.samples.at(-1)?.time_s ?? 0;
  }

  add(samples) {
    const newest = this.newestS;
    this.samples.push(...samples.filter((sample) => sample.time_s > newest));
    const oldest = this.newestS - KEPT_S;
    const young = this.samples.findIndex((sample) => sample.time_s > oldest);
    if (young > 0) this.samples.splice(0, young);
  }

  clear() {
    this.samples = [];
  }

  /** Totals of the last `spanS` seconds. */
  totals(spanS) {
    const from = this.newestS - spanS;
    return summed(this.samples.filter((sample) => sample.time_s > from));
  }

  /**
   * The last `spanS` seconds in parts of equal length, at most sixty, oldest first, each with `endS` (Unix seconds).
   * Parts begin at round times, so that a part's value stays once it is over.
   */
  parts(spanS) {
    const widthS = Math.max(2, spanS / 60);
    const n = Math.round(spanS / widthS);
    const last = Math.ceil(this.newestS / widthS);
    const parts = Array.from({ length: n }, () => []);
    for (const sample of this.samples) {
      const place = n - 1 - (last - Math.ceil(sample.time_s / widthS));
      if (place >= 0) parts[place].push(sample);
    }
    return parts.map((samples, i) => ({ endS: (last - n + 1 + i) * widthS, ...summed(samples) }));
  }
}

const SUMS = [
  "interval_s", "prompt_tokens", "hit_tokens", "prefill_tokens", "generated_tokens", "evicted_tokens",
  "lost_tokens", "warm_requests", "warm_ttft_s", "cold_requests", "cold_ttft_s",
];
const MEANS = ["running", "waiting", "free", "cached", "held", "pinned"];

function summed(samples) {
  const sum = (name) => samples.reduce((total, sample) => total + sample[name], 0);
  const total = Object.fromEntries(SUMS.map((name) => [name, sum(name)]));
  const n = samples.length;
  const mean = Object.fromEntries(MEANS.map((name) => [name, n ? sum(name) / n : null]));
  return { ...total, ...mean, n };
}

/** `a / b`, or null where there is nothing to divide by. */
export const ratio = (a, b) => (b > 0 ? a / b : null);

/** A rate per second, or null where there is no time. */
export const rate = (total, part) => (part.n ? total / Math.max(part.interval_s, 1e-9) : null);
