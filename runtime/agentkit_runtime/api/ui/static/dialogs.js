// Asks before something is done, and says what it would do.

import * as api from "./api.js";
import { byId, h, label, setText, show } from "./dom.js";
import { counted, exact } from "./format.js";

const LASTING = [["", "until it is unpinned"], ["300", "5 minutes after its last use"], ["3600", "1 hour after its last use"], ["86400", "1 day after its last use"]];

export class Dialogs {
  /** `done(text)` is called after something was done; `text` says what. */
  constructor(done) {
    this.done = done;
    this.dialog = byId("dialog");
    byId("dialog-cancel").addEventListener("click", () => this.dialog.close());
    byId("dialog-form").addEventListener("submit", (event) => this.submit(event));
  }

  /** Say what pruning would do, and do it when that is confirmed. */
  async prune(path, body, kind, name) {
    this.open(h("span", {}, `Prune ${kind} `, label(name), "?"), "Prune", "danger");
    const would = await this.attempt(() => api.post(path, { ...body, dry_run: true }));
    if (would === null) return;
    const tokens = would.freed_tokens + would.condemned_tokens;
    byId("dialog-body").replaceChildren(...described(would));
    this.offer(tokens ? `Prune ${exact(tokens)} tokens` : null, async () => {
      const did = await api.post(path, body);
      return `Pruned: ${exact(did.freed_tokens)} tokens are free${did.condemned_tokens ? `, ${exact(did.condemned_tokens)} follow` : ""}.`;
    });
  }

  /** Ask how long a branch is to be pinned. */
  pin(path, body, tokens, name) {
    const named = h("input", { id: "pin-name", maxlength: 256, value: name, spellcheck: "false" });
    const lasts = h("select", { id: "pin-ttl" }, ...LASTING.map(([value, text]) => h("option", { value, text })));
    this.open("Pin this prefix?", "Pin", "primary");
    byId("dialog-body").replaceChildren(
      h("p", { text: `${exact(tokens)} tokens, from the prompt's beginning on, will not be evicted.` }),
      h("label", { for: "pin-name", text: "Name" }), named,
      h("label", { for: "pin-ttl", text: "Kept" }), lasts);
    this.offer(`Pin ${exact(tokens)} tokens`, async () => {
      const ttl = lasts.value ? { ttl_s: Number(lasts.value) } : {};
      const pinned = await api.post(path, { ...body, ...ttl, ...(named.value ? { name: named.value } : {}) });
      return `Pinned ${exact(pinned.tokens)} tokens.`;
    });
    named.focus();
  }

  open(title, action, kind) {
    byId("dialog-title").replaceChildren(title);
    byId("dialog-body").replaceChildren(h("p", { class: "muted", text: "Looking…" }));
    show(byId("dialog-error"), false);
    const act = byId("dialog-do");
    act.className = kind;
    setText(act, action);
    act.disabled = true;
    this.act = null;
    if (!this.dialog.open) this.dialog.showModal();
  }

  offer(text, act) {
    const does = byId("dialog-do");
    does.disabled = text === null;
    if (text !== null) setText(does, text);
    this.act = act;
  }

  async submit(event) {
    event.preventDefault();
    if (this.act === null || byId("dialog-do").disabled) return;
    byId("dialog-do").disabled = true;
    const said = await this.attempt(this.act);
    if (said === null) return;
    this.dialog.close();
    this.done(said);
  }

  /** What `work` gives; null, with the failure shown, where it fails. */
  async attempt(work) {
    try {
      return await work();
    } catch (failure) {
      const error = byId("dialog-error");
      setText(error, failure.message);
      show(error, true);
      return null;
    }
  }
}

function described(would) {
  if (!would.freed_tokens && !would.condemned_tokens) {
    return [h("p", { text: "There is nothing of it in the pool that it does not share with others." })];
  }
  const lines = [`${exact(would.freed_tokens)} tokens in ${counted(would.nodes, "node")} become free at once.`];
  if (would.condemned_tokens) lines.push(`${exact(would.condemned_tokens)} tokens are in use: they are found no more, and go when they no longer are.`);
  if (would.pins) lines.push(`${counted(would.pins, "pin ends", "pins end")}.`);
  return [...lines.map((text) => h("p", { text })), h("p", { class: "muted", text: "What others share stays. Copies in host memory and on disk go, too." })];
}
