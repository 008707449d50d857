// Polls the admin API, and hands what it says to the parts of the page.

import * as api from "./api.js";
import { Details } from "./details.js";
import { Dialogs } from "./dialogs.js";
import { byId, h, setText, show } from "./dom.js";
import { about } from "./format.js";
import { Header } from "./header.js";
import { History } from "./history.js";
import { Pins, Sessions } from "./lists.js";
import { Login } from "./login.js";
import { Load, Memory } from "./memory.js";
import { Panels } from "./panels.js";
import { Requests } from "./requests.js";
import { Tiles } from "./tiles.js";
import { Tree } from "./tree.js";

const EVERY_MS = 2000;
const WORST_MS = 15_000;
const SAID_MS = 6000;
const MAX_NODES = 500;
const MAX_SESSIONS = 200;
const HISTORY = 900;
const STOPPED = "The engine has stopped: nothing is answered any more, and the numbers stand still. The server's log says why; start it again.";

class Page {
  constructor() {
    this.header = new Header(() => this.now(), () => this.forget());
    this.login = new Login(() => this.now());
    this.history = new History();
    this.tiles = new Tiles();
    this.panels = new Panels();
    this.memory = new Memory();
    this.load = new Load();
    this.requests = new Requests();
    this.dialogs = new Dialogs((text) => this.did(text));
    const prune = (selector, kind, name) => this.dialogs.prune("prune", selector, kind, name);
    const unpin = (pin) => this.unpin(pin);
    this.sessions = new Sessions(prune);
    this.pins = new Pins(unpin);
    this.details = new Details({
      prune, unpin,
      pin: (placed) => this.dialogs.pin("tree/pin", branchOf(placed), placed.end, placed.name),
      pruneBranch: (placed) => this.dialogs.prune("tree/prune", branchOf(placed), "branch", placed.name || "without a name"),
      text: (placed, place) => this.showText(placed, place),
    });
    this.chosen = null;
    this.pinList = [];
    this.bytesPerToken = null;
    this.tree = new Tree((placed) => {
      this.chosen = placed;
      this.detail();
    });
    this.startedS = null;
    this.heardMs = Date.now();
    this.round = 0;
    this.isLooking = false;
    this.looksAgain = false;
    this.failures = 0;
    document.addEventListener("visibilitychange", () => document.hidden || this.now());
  }

  /** Poll at once, and from then on again and again. A poll that is under way is forgotten. */
  async now() {
    clearTimeout(this.timer);
    const round = ++this.round;
    let waitMs = EVERY_MS;
    try {
      const found = await this.ask();
      if (round !== this.round) return;
      this.heard(found);
    } catch (failure) {
      if (round !== this.round) return;
      if (!(failure instanceof api.ApiFailure)) throw failure;
      if (failure.needsKey) {
        this.closed(failure);
        return;
      }
      waitMs = Math.min(WORST_MS, EVERY_MS * 2 ** this.failures++);
      this.lost(failure, waitMs);
    }
    if (!document.hidden) this.timer = setTimeout(() => this.now(), waitMs);
  }

  /** What the server can always say at once. */
  async ask() {
    const [state, requests] = await Promise.all([
      api.get("state", { history: HISTORY, since: this.history.newestS }),
      api.get("requests", { after: this.requests.last }),
    ]);
    return { state, requests };
  }

  /** What the engine says between two of its steps, which can be long: nothing else waits for it. */
  async lookIntoEngine() {
    if (this.isLooking) {
      this.looksAgain = true;
      return;
    }
    this.isLooking = true;
    this.looksAgain = false;
    const { tenant } = this.header;
    try {
      const [tree, sessions, pins, published] = await Promise.all([
        api.get("tree", { limit: MAX_NODES, tenant }),
        api.get("sessions", { limit: MAX_SESSIONS, tenant }),
        api.get("pins", { tenant }),
        api.get("published"),
      ]);
      this.seen({ tree, sessions: sessions.data, pins: pins.data, published: published.data });
    } catch (failure) {
      if (!(failure instanceof api.ApiFailure)) throw failure;
      setText(byId("tree-summary"), `not up to date: ${failure.message}`);
    } finally {
      this.isLooking = false;
      if (this.looksAgain) this.lookIntoEngine();
    }
  }

  heard({ state, requests }) {
    this.heardMs = Date.now();
    this.failures = 0;
    setText(byId("trouble"), state.healthy ? "" : STOPPED);
    show(byId("trouble"), !state.healthy);
    this.login.close();
    if (this.startedS !== null && this.startedS !== state.started_s) {
      this.history.clear();
      this.requests.clear();
      this.startedS = null;
      this.now(); // what came is of another run: ask for all of this one
      return;
    }
    this.startedS = state.started_s;
    this.history.add(state.history);
    this.requests.add(requests);
    this.bytesPerToken = state.pool.bytes_per_token;
    const { spanS, tenant } = this.header;
    this.header.update(state, api.key() !== null);
    this.header.sawTenants(this.requests.tenants);
    this.tiles.update(state, this.history, spanS);
    this.panels.update(this.history, spanS);
    this.memory.update(state);
    this.load.update(state);
    this.requests.draw(tenant);
    this.lookIntoEngine();
  }

  seen({ tree, sessions, pins, published }) {
    this.pinList = pins;
    this.header.sawTenants([tree.nodes, sessions, pins].flat().map((one) => one.tenant));
    this.tree.update(tree);
    this.sessions.update(sessions);
    this.pins.update(pins, published);
  }

  detail() {
    this.details.update(this.chosen, this.pinList, this.bytesPerToken);
  }

  lost(failure, waitMs) {
    this.header.lost();
    const silentS = (Date.now() - this.heardMs) / 1000;
    setText(byId("trouble"), `${failure.message} Last heard of ${about(silentS)} ago; trying again in ${about(waitMs / 1000)}.`);
    show(byId("trouble"), true);
  }

  closed(failure) {
    show(byId("trouble"), false);
    this.header.lost();
    setText(byId("phase"), "locked");
    show(byId("forget"), false);
    this.login.open(failure);
  }

  /** Forget the key and all that it showed. */
  forget() {
    api.setKey(null);
    location.reload();
  }

  async unpin(pin) {
    try {
      await api.remove(`pins/${encodeURIComponent(pin.handle)}`);
      this.did(`Unpinned ${pin.name ?? pin.handle}.`);
    } catch (failure) {
      this.did(failure.message);
    }
  }

  async showText(placed, place) {
    const { tenant } = placed.node;
    try {
      const tree = await api.get("tree", { limit: MAX_NODES, tenant, text: true });
      const found = tree.nodes.find((node) => node.id === placed.node.id && node.start === placed.node.start);
      place.replaceChildren(h("pre", { text: found?.text ?? "It is not there any more." }));
    } catch (failure) {
      place.replaceChildren(h("p", { class: "bad-text", text: failure.message }));
    }
  }

  /** Say for a while what was done, and look what became of it. */
  did(text) {
    const said = byId("said");
    setText(said, text);
    clearTimeout(this.saidTimer);
    this.saidTimer = setTimeout(() => setText(said, ""), SAID_MS);
    this.now();
  }
}

/** How the API names a branch: its last token's slot, and how many tokens it has from the start. */
const branchOf = (placed) => ({ node: placed.node.id, end: placed.end, tenant: placed.node.tenant });

new Page().now();
