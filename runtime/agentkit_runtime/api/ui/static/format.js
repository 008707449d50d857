// Numbers for people. Everything takes null for "not known".

const NONE = "–";
const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const clockTime = new Intl.DateTimeFormat("en-GB", { timeStyle: "medium" });

export const isNumber = (value) => typeof value === "number" && Number.isFinite(value);

/** 1,234 and 12.3K. */
export function count(n) {
  if (!isNumber(n)) return NONE;
  return Math.abs(n) < 10_000 ? whole.format(n) : short.format(n);
}

/** A count with all of its digits. */
export const exact = (n) => (isNumber(n) ? whole.format(n) : NONE);

/** 0.123 as 12.3 %. */
export function percent(share) {
  if (!isNumber(share)) return NONE;
  const value = 100 * share;
  return `${value !== 0 && value !== 100 && Math.abs(value) < 99.95 ? value.toFixed(1) : value.toFixed(0)} %`;
}

/** Seconds: 8.2 ms, 158 ms, 1.52 s, 3 min 20 s, 2 h 5 min. */
export function duration(s) {
  if (!isNumber(s)) return NONE;
  if (s < 0.01) return `${(1000 * s).toFixed(1)} ms`;
  if (s < 0.9995) return `${(1000 * s).toFixed(0)} ms`;
  if (s < 9.995) return `${s.toFixed(2)} s`;
  if (s < 59.95) return `${s.toFixed(1)} s`;
  const minutes = Math.floor(s / 60);
  if (minutes < 60) return `${minutes} min ${Math.floor(s % 60)} s`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

/** Seconds that pass while they are read: whole ones. */
export const about = (s) => (s < 59.5 ? `${Math.round(s)} s` : duration(s));

/** Bytes, in powers of ten. */
export function bytes(n) {
  if (!isNumber(n)) return NONE;
  for (const [unit, size] of [["GB", 1e9], ["MB", 1e6], ["kB", 1e3]]) {
    if (n >= size) return `${(n / size).toFixed(n >= 100 * size ? 0 : n >= 10 * size ? 1 : 2)} ${unit}`;
  }
  return `${whole.format(n)} B`;
}

/** A number on an axis: 0.25, 40, 1.2K. */
export function tick(n) {
  return Math.abs(n) >= 1000 ? short.format(n) : String(Number(n.toPrecision(3)));
}

/** The time of day of a Unix time, to the second. */
export const time = (unixS) => clockTime.format(new Date(1000 * unixS));

/** One of `one` or `many`, with its number. */
export const counted = (n, one, many = `${one}s`) => `${count(n)} ${n === 1 ? one : many}`;
