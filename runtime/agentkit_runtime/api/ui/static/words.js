// What the API's words mean, for people.

/** Why no more of a prompt was read from the cache; see `Cause` of the requests endpoint. */
export const CAUSES = {
  cached: ["all of it was cached", "Everything that can be read from the cache was."],
  "never seen": ["new from there", "Nothing that is cached goes on like this: it is a new text."],
  evicted: ["evicted", "It goes on as something that was cached a few minutes ago and has left: the pool is too small, or it was pruned."],
  diverged: ["differs from what is cached", "The cache goes on there, but says something else: the prompt was changed before its end."],
};

/** How a request ended. */
export const OUTCOMES = {
  done: "done",
  gone: "client left",
  refused: "refused",
  failed: "failed",
};

/** What the server says of itself. */
export const PHASES = {
  starting: "starting",
  warming: "warming up",
  ready: "ready",
  draining: "draining",
  stopped: "stopped",
};

/** The words of a cause: a short text and an explanation. */
export function causeOf(row) {
  if (row.missed === null || row.missed === undefined) return ["", ""];
  const [text, why] = CAUSES[row.missed] ?? [row.missed, ""];
  const at = `The first token that was not read is number ${row.cached_tokens}.`;
  return [text, row.missed === "cached" ? why : `${why} ${at}`];
}
