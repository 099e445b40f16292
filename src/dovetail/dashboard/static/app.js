// Selects the view from the URL, so that every view has a link.
import { fill, h, time, utc } from "./dom.js";
import { Store } from "./store.js";
import * as cluster from "./cluster.js";
import * as decisions from "./decisions.js";
import * as node from "./node.js";
import * as plan from "./plan.js";
import * as pools from "./pools.js";
import * as savings from "./savings.js";

const VIEWS = { cluster, node, pools, plan, decisions, savings };
const REFRESH = 3000; // milliseconds between two automatic reloads of a view
const main = document.getElementById("main");
const store = new Store();
let shown = null;

function route() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const [name, ...parts] = path.split("/");
  const known = Object.hasOwn(VIEWS, name) && (name !== "node" || parts[0]);
  return { name: known ? name : "cluster", parts: parts.map(decoded), query: new URLSearchParams(query) };
}

// A truncated URL may not be decodable.
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

function show({ focus = true } = {}) {
  const at = route();
  shown?.stop?.();
  const view = VIEWS[at.name];
  document.title = `${view.title(at)} · Dovetail`;
  for (const each of document.querySelectorAll("nav [data-view]")) {
    const here = each.dataset.view === at.name || (at.name === "node" && each.dataset.view === "cluster");
    if (here) each.setAttribute("aria-current", "page");
    else each.removeAttribute("aria-current");
  }
  const put = (...children) => fill(main, ...children);
  shown = { name: at.name, stop: null, ...view.open({ main, put, store, at, setQuery, stale: () => shown?.at !== at }), at };
  if (focus) {
    main.focus({ preventScroll: true });
    scrollTo(0, 0);
  }
  refresh(at);
}

// Loads and draws the view; an error is shown in its place.
async function refresh(at) {
  if (!shown?.load) return;
  const mine = shown;
  try {
    const draw = await mine.load();
    if (mine === shown && draw) {
      const keep = mine.drawn ? keepOpen() : () => {}; // at first the elements are those of the previous view
      draw();
      keep();
      mine.drawn = true;
    }
  } catch (error) {
    if (mine === shown) fill(main, h("div", { class: "notice", role: "alert" }, h("h1", {}, mineTitle(at)), h("p", {}, error.message)));
  }
  if (mine === shown) main.setAttribute("aria-busy", "false");
}

const mineTitle = (at) => VIEWS[at.name].title(at);

// Keeps open sections, keyboard focus and scroll position when a view is drawn again.
function keepOpen() {
  const open = [...main.querySelectorAll("details[data-key]")].filter((each) => each.open).map((each) => each.dataset.key);
  const closed = [...main.querySelectorAll("details[data-key]")].filter((each) => !each.open).map((each) => each.dataset.key);
  const held = document.activeElement?.closest?.("[data-hold]")?.dataset.hold;
  const at = scrollY;
  return () => {
    for (const each of main.querySelectorAll("details[data-key]")) {
      if (open.includes(each.dataset.key)) each.open = true;
      if (closed.includes(each.dataset.key)) each.open = false;
    }
    if (held) main.querySelector(`[data-hold="${CSS.escape(held)}"]`)?.focus({ preventScroll: true });
    scrollTo(0, at);
  };
}

function setQuery(values) {
  const at = route();
  for (const [key, value] of Object.entries(values)) value ? at.query.set(key, value) : at.query.delete(key);
  const query = String(at.query);
  const hash = `#/${[at.name, ...at.parts.map(encodeURIComponent)].join("/")}${query ? `?${query}` : ""}`;
  history.replaceState(null, "", hash);
}

function head() {
  const link = document.getElementById("link");
  const well = store.summary?.still ? "a snapshot" : "live";
  link.textContent = store.connected ? well : "connection lost";
  link.className = store.connected ? "live" : "lost";
  const { summary } = store;
  fill(document.getElementById("clock"), summary && time(summary.at));
  const lost = document.getElementById("lost");
  lost.hidden = store.connected || !store.lostAt;
  if (!lost.hidden) {
    const since = utc(new Date(store.lostAt).toISOString(), null, true);
    fill(lost, h("b", {}, "Connection lost."), ` ${store.problem} `, summary ? `What you see is from before ${since}. ` : "", "Trying again.");
  }
}

let due = null;
function changed(event) {
  head();
  if (!store.summary) {
    fill(main, h("div", { class: "notice" }, h("h1", {}, "No data yet"),
      h("ul", {}, store.missing.map((each) => h("li", {}, each)))));
    main.setAttribute("aria-busy", "false");
    shown = null;
    return;
  }
  if (!shown) return show({ focus: false });
  shown.update?.(event.type);
  if (shown.load && !due && shown.live !== false) {
    due = setTimeout(() => { due = null; refresh(route()); }, REFRESH);
  }
}

store.addEventListener("link", head);
store.addEventListener("whole", changed);
store.addEventListener("frame", changed);
addEventListener("hashchange", () => location.hash !== "#main" && store.summary && show());
document.querySelector("[data-skip]").addEventListener("click", (event) => { event.preventDefault(); main.focus(); });

const keys = document.getElementById("keys");
document.getElementById("help").addEventListener("click", () => keys.showModal());
addEventListener("keydown", (event) => {
  if (keys.open || event.ctrlKey || event.metaKey || event.altKey || /INPUT|SELECT|TEXTAREA/.test(document.activeElement.tagName)) return;
  const box = main.querySelector("input[type=search]");
  const view = document.querySelectorAll("nav [data-view]")[Number(event.key) - 1];
  if (event.key === "/" && box) { event.preventDefault(); box.focus(); }
  else if (event.key === "?") keys.showModal();
  else if (view) location.hash = view.hash;
});
store.start();
