// The admin API, with the key that this tab was given.

const KEY = "agentkit-admin-key";
const WITHIN_MS = 10_000;
const ROOT = new URL("../", document.baseURI);

/** A failure as the server tells it; `status` 0 means that the server was not reached. */
export class ApiFailure extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }

  get needsKey() {
    return this.status === 401 || this.status === 403;
  }
}

// A browser can refuse storage; then the key lives as long as the page.
let remembered = null;

export function key() {
  try {
    return sessionStorage.getItem(KEY) ?? remembered;
  } catch {
    return remembered;
  }
}

export function setKey(value) {
  remembered = value;
  try {
    if (value === null) sessionStorage.removeItem(KEY);
    else sessionStorage.setItem(KEY, value);
  } catch {
    // See above.
  }
}

/** `GET /admin/v1/<path>` with parameters; those that are null are left out. */
export function get(path, params = {}) {
  const url = new URL(`admin/v1/${path}`, ROOT);
  for (const [name, value] of Object.entries(params)) {
    if (value !== null && value !== undefined) url.searchParams.set(name, value);
  }
  return ask(url, {});
}

export function post(path, body) {
  const headers = { "Content-Type": "application/json" };
  return ask(new URL(`admin/v1/${path}`, ROOT), { method: "POST", headers, body: JSON.stringify(body) });
}

export function remove(path) {
  return ask(new URL(`admin/v1/${path}`, ROOT), { method: "DELETE" });
}

async function ask(url, options) {
  const headers = { ...options.headers };
  if (key() !== null) headers.Authorization = `Bearer ${key()}`;
  let answer;
  let document;
  try {
    const settings = { cache: "no-store", credentials: "omit", signal: AbortSignal.timeout(WITHIN_MS) };
    answer = await fetch(url, { ...settings, ...options, headers });
    document = await answer.json();
  } catch (error) {
    const late = error.name === "TimeoutError";
    throw new ApiFailure(answer?.status ?? 0, late ? "The server does not answer." : "The server cannot be reached.");
  }
  if (!answer.ok) throw new ApiFailure(answer.status, document?.error?.message ?? `HTTP ${answer.status}`);
  return document;
}
