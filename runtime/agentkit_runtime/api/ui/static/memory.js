// Where KV is kept, and what runs and waits.

import { byId, h, setText } from "./dom.js";
import { bytes, count, counted, duration, exact, percent } from "./format.js";

const BLOCK_TOKENS = 16;
const CLASSES = ["interactive", "normal", "batch"];

export class Memory {
  constructor() {
    this.rows = byId("memory");
  }

  update({ pool, tiers }) {
    const size = (tokens) => (pool.bytes_per_token === null ? "" : bytes(tokens * pool.bytes_per_token));
    const inUse = Math.max(0, pool.held - pool.pinned);
    const parts = [["pinned", pool.pinned, "c4"], ["in use", inUse, "c2"], ["cached", pool.cached, "c1"], ["free", pool.free, "c0"]];
    const what = `${exact(pool.total)} tokens${pool.bytes_per_token === null ? "" : `, ${size(pool.total)}`}${pool.kv_dtype ? ` in ${pool.kv_dtype}` : ""}`;
    const shown = [tier("Pool", what, parts.map(([name, n, colour]) => ({ name, n, colour, text: `${count(n)} (${percent(n / Math.max(1, pool.total))})` })), pool.total)];
    if (tiers === null) {
      shown.push(h("p", { class: "muted", text: "No host memory and no disk behind the pool: what is evicted is gone (--host-cache, --disk-cache)." }));
    } else {
      shown.push(this.host(tiers), this.disk(tiers), this.traffic(tiers));
    }
    this.rows.replaceChildren(...shown);
  }

  host(tiers) {
    return behind("Host memory", tiers.host_blocks, tiers.host_bytes, tiers.host_max_bytes);
  }

  disk(tiers) {
    return behind("Disk", tiers.disk_blocks, tiers.disk_bytes, tiers.disk_max_bytes);
  }

  traffic(tiers) {
    const text = `Since start ${count(tiers.restored_tokens)} tokens came back; blocks found in host memory ${count(tiers.hits_host)}, on disk ${count(tiers.hits_disk)}.`;
    const failed = tiers.failures ? ` ${counted(tiers.failures, "failure")}.` : "";
    return h("p", { class: failed ? "bad-text" : "muted", text: text + failed });
  }
}

/** A tier behind the pool, as full as it is of what it may take. On disk other models' files count, too. */
function behind(name, blocks, used, most) {
  if (!most) return tier(name, "not used", [], 1);
  const kept = `${bytes(used)} (${percent(used / most)}), ${count(blocks * BLOCK_TOKENS)} tokens`;
  const free = Math.max(0, most - used);
  const parts = [{ name: "kept", n: used, colour: "c1", text: kept }, { name: "free", n: free, colour: "c0", text: bytes(free) }];
  return tier(name, bytes(most), parts, most);
}

function tier(name, what, parts, total) {
  const bar = h("div", { class: "stack", "aria-hidden": "true" },
    ...parts.filter((part) => part.n > 0).map((part) => h("div", { class: `fill ${part.colour}`, style: { width: `${(100 * part.n) / Math.max(1, total)}%` } })));
  const legend = parts.map((part) => h("span", { class: "key" }, h("i", { class: `swatch ${part.colour}` }), `${part.name} `, h("b", { text: part.text })));
  return h("div", { class: "tier" }, h("p", {}, h("b", { text: name }), h("span", { class: "muted", text: what ? ` ${what}` : "" })), bar, h("p", { class: "legend" }, ...legend));
}

export class Load {
  constructor() {
    this.cells = {};
    const row = (name, title) => {
      this.cells[name] = h("dd", { text: "–" });
      return [h("dt", { text: title }), this.cells[name]];
    };
    byId("load").append(
      h("dl", { class: "facts" },
        ...row("running", "Running"), ...row("prefilling", "of them reading their prompt"),
        ...CLASSES.flatMap((name) => row(name, `Waiting, ${name}`)),
        ...row("following", "Waiting for another one's prefix"), ...row("loading", "Loading from a slower tier"),
        ...row("oldest", "Oldest wait"), ...row("preemptions", "Preemptions since start"), ...row("ended", "Ended since start")));
  }

  update({ scheduler, counts }) {
    for (const name of ["running", "prefilling", "following", "loading", "preemptions"]) setText(this.cells[name], count(scheduler[name]));
    for (const name of CLASSES) setText(this.cells[name], count(scheduler.waiting[name]));
    setText(this.cells.oldest, duration(scheduler.oldest_wait_s));
    const ended = Object.entries(counts.ended).map(([reason, n]) => `${count(n)} ${reason}`);
    setText(this.cells.ended, ended.join(", ") || "none");
  }
}
