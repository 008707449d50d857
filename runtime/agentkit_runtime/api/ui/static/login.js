// Asks for an admin key, and keeps it in this tab alone.

import { key, setKey } from "./api.js";
import { byId, setText, show } from "./dom.js";

const FORM = /^[\x21-\x7e]+$/; // what a header can carry

export class Login {
  /** `entered` is called with nothing once there is a key to try. */
  constructor(entered) {
    this.entered = entered;
    byId("login-form").addEventListener("submit", (event) => this.submit(event));
  }

  get isOpen() {
    return !byId("login").hidden;
  }

  /** Show the form. `failure` is what the server said; without a key that is no news. */
  open(failure) {
    const error = byId("login-error");
    const wasTried = key() !== null;
    setText(error, wasTried ? failure.message : "");
    show(error, wasTried);
    setKey(null);
    show(byId("main"), false);
    show(byId("login"), true);
    byId("key").focus();
  }

  close() {
    show(byId("login"), false);
    show(byId("main"), true);
  }

  submit(event) {
    event.preventDefault();
    const field = byId("key");
    const entered = field.value.trim();
    field.value = "";
    const error = byId("login-error");
    if (!FORM.test(entered)) {
      setText(error, "This is not a key: keys have letters, digits and underscores only.");
      show(error, true);
      return;
    }
    setKey(entered);
    this.entered();
  }
}
