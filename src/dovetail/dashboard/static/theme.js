// Light or dark: as the system has it, unless the reader chose. Runs before anything is drawn, so that nothing flashes.
(() => {
  const NAMES = { "": "System", light: "Light", dark: "Dark" };
  const kept = () => { try { return localStorage.getItem("dovetail-theme") ?? ""; } catch { return ""; } };
  function show(theme) {
    if (theme) document.documentElement.dataset.theme = theme;
    else delete document.documentElement.dataset.theme;
    const button = document.getElementById("theme");
    if (button) {
      button.textContent = NAMES[theme];
      button.setAttribute("aria-label", `Colors: ${NAMES[theme].toLowerCase()}. Press to change.`);
    }
  }
  let theme = NAMES[kept()] ? kept() : "";
  show(theme);
  addEventListener("DOMContentLoaded", () => {
    show(theme);
    document.getElementById("theme").addEventListener("click", () => {
      const all = Object.keys(NAMES);
      theme = all[(all.indexOf(theme) + 1) % all.length];
      try { localStorage.setItem("dovetail-theme", theme); } catch { /* not kept */ }
      show(theme);
    });
  });
})();
