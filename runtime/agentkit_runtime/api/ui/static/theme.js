// Runs before the page is drawn, so that a chosen theme does not flash. Not a module.
"use strict";

(() => {
  let theme = null;
  try {
    theme = localStorage.getItem("agentkit-theme");
  } catch {
    // Storage is blocked: the system's preference holds.
  }
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
})();
