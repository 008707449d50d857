// The top of the page: what is served, how it is, and what the page shows.

import { byId, h, setText, show } from "./dom.js";
import { duration } from "./format.js";
import { PHASES } from "./words.js";

export class Header {
  /** `changed` is called when another tenant or span of time is chosen. */
  constructor(changed, forget) {
    this.tenants = new Set();
    byId("tenant").addEventListener("change", changed);
    byId("span").addEventListener("change", changed);
    byId("forget").addEventListener("click", forget);
    const theme = byId("theme");
    theme.value = document.documentElement.dataset.theme ?? "";
    theme.addEventListener("change", () => chooseTheme(theme.value));
  }

  /** The tenant whose things are shown; null for all. */
  get tenant() {
    return byId("tenant").value || null;
  }

  /** Seconds that charts show. */
  get spanS() {
    return Number(byId("span").value);
  }

  update(state, hasKey) {
    setText(byId("model"), state.model);
    setText(byId("uptime"), `· up ${duration(Math.max(0, state.time_s - state.started_s))}`);
    const phase = state.healthy ? (state.phase ?? "ready") : "stopped";
    const badge = byId("phase");
    setText(badge, PHASES[phase] ?? phase);
    badge.dataset.state = phase;
    show(byId("forget"), hasKey);
  }

  lost() {
    const badge = byId("phase");
    setText(badge, "no answer");
    badge.dataset.state = "lost";
  }

  /** Offer tenants to choose from; those seen before stay. */
  sawTenants(names) {
    const found = [...names].filter((name) => name && !this.tenants.has(name));
    if (!found.length) return;
    for (const name of found) this.tenants.add(name);
    const select = byId("tenant");
    const chosen = select.value;
    const options = [...this.tenants].sort().map((name) => h("option", { value: name, text: name }));
    select.replaceChildren(h("option", { value: "", text: "all" }), ...options);
    select.value = chosen;
  }
}

function chooseTheme(theme) {
  if (theme) document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
  try {
    if (theme) localStorage.setItem("agentkit-theme", theme);
    else localStorage.removeItem("agentkit-theme");
  } catch {
    // Storage is blocked: the choice holds as long as the page.
  }
}
