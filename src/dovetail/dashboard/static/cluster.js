// Every node as a tile. Only visible tiles are in the document, so thousands of nodes cost no more than a few dozen.
import { age, bytes, cores, counted, fill, h, link, money, monthly, percent, utc } from "./dom.js";
import { label } from "./labels.js";

export const title = () => "Cluster";

const SIZES = { tiles: { width: 252, height: 136, gap: 8, draw: drawTile }, dots: { width: 15, height: 15, gap: 3, draw: drawDot } };
const AHEAD = 3; // rows drawn above and below the visible ones
const STATES = ["Ready", "Cordoned", "NotReady", "Launching", "Registering", "Disrupting", "Draining", "Lost"];
const ORDERS = {
  pool: (a, b) => a.pool.localeCompare(b.pool) || a.name.localeCompare(b.name),
  price: (a, b) => b.price - a.price || a.name.localeCompare(b.name),
  cpu: (a, b) => percent(a.cpu) - percent(b.cpu) || a.name.localeCompare(b.name),
  memory: (a, b) => percent(a.memory) - percent(b.memory) || a.name.localeCompare(b.name),
  waits: (a, b) => (a.code ?? "").localeCompare(b.code ?? "") || a.name.localeCompare(b.name),
  age: (a, b) => (a.created ?? "").localeCompare(b.created ?? "") || a.name.localeCompare(b.name),
};
const NAMES = { pool: "NodePool", price: "Price, highest first", cpu: "CPU, emptiest first", memory: "Memory, emptiest first", waits: "What it waits for", age: "Age, oldest first" };

// `pool:general state:Ready c6g`: every word must be found; a word with a colon only in that field.
function matcher(text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean).map((word) => {
    const [, field, rest] = /^(pool|state|type|zone|capacity|code|name):(.*)$/.exec(word) ?? [];
    return field ? { field, rest } : { rest: word };
  });
  return (node) => words.every(({ field, rest }) => field
    ? String(node[field] ?? "").toLowerCase() === rest || (field === "name" && node.name.includes(rest))
    : `${node.name} ${node.pool} ${node.type} ${node.zone} ${node.capacity} ${node.state} ${node.because ?? ""}`.toLowerCase().includes(rest));
}

export function open({ put, store, at, setQuery }) {
  let filter = at.query.get("q") ?? "", order = ORDERS[at.query.get("sort")] ? at.query.get("sort") : "pool";
  let size = SIZES[at.query.get("size")] ? at.query.get("size") : "tiles";
  let found = [], columns = 1, focused = 0, planned = false;
  const tiles = new Map();
  const figures = h("div", { class: "figures" }), states = h("div", { class: "chips", role: "group", "aria-label": "Filter by state" });
  const reasons = h("div", { class: "chips", role: "group", "aria-label": "Filter by what they wait for" });
  const count = h("p", { class: "quiet", role: "status" });
  const grid = h("ul", { class: "tiles", "aria-label": "Nodes" });
  const box = h("input", { type: "search", id: "filter", value: filter, placeholder: "name, pool:general, state:Ready, spot …", "aria-describedby": "filter-help",
    oninput: (event) => set(event.target.value) });
  const sort = h("select", { id: "sort", onchange: (event) => { order = event.target.value; setQuery({ sort: order === "pool" ? "" : order }); draw(); } },
    Object.entries(NAMES).map(([key, text]) => h("option", { value: key, selected: key === order }, text)));

  const shape = h("select", { id: "size", onchange: (event) => { size = event.target.value; setQuery({ size: size === "tiles" ? "" : size }); clear(); draw(); } },
    [["tiles", "Tiles"], ["dots", "Dots"]].map(([key, text]) => h("option", { value: key, selected: key === size }, text)));
  const legend = h("p", { class: "legend" }, LEGEND.map(([kind, text]) => h("span", {}, h("span", { class: `dot ${kind}`, "aria-hidden": "true" }), text)));

  function clear() {
    for (const tile of tiles.values()) tile.item.remove();
    tiles.clear();
  }

  function set(text) {
    filter = text;
    if (box.value !== text) box.value = text;
    setQuery({ q: text });
    draw();
  }

  function toggle(word) {
    const words = filter.split(/\s+/).filter(Boolean);
    const kind = word.split(":")[0];
    const rest = words.filter((each) => !each.startsWith(`${kind}:`));
    set((words.includes(word) ? rest : [...rest, word]).join(" "));
  }

  function chips(host, kind, counts) {
    const held = document.activeElement?.dataset?.word;
    fill(host, counts.map(([value, number]) => {
      const word = `${kind}:${value}`, on = filter.split(/\s+/).includes(word);
      return h("button", { type: "button", class: `chip ${kind}-${value.toLowerCase()}`, "aria-pressed": String(on), "data-word": word, onclick: () => toggle(word) },
        h("span", { class: "dot", "aria-hidden": "true" }), kind === "code" ? label(value) : value, h("b", {}, number.toLocaleString("en-US")));
    }));
    if (held) host.querySelector(`[data-word="${CSS.escape(held)}"]`)?.focus();
  }

  function draw() {
    const { summary } = store;
    if (!summary) return;
    const all = [...store.nodes.values()];
    found = all.filter(matcher(filter)).sort(ORDERS[order]);
    const cost = found.reduce((sum, each) => sum + (each.managed ? each.price : 0), 0);
    drawFigures(figures, summary);
    chips(states, "state", STATES.filter((each) => summary.states[each]).map((each) => [each, summary.states[each]]));
    const codes = new Map();
    for (const each of all) if (each.code) codes.set(each.code, (codes.get(each.code) ?? 0) + 1);
    chips(reasons, "code", [...codes].sort((a, b) => b[1] - a[1]).slice(0, 12));
    const said = `${counted(found.length, "node")}${found.length === all.length ? "" : ` of ${all.length.toLocaleString("en-US")}`}, ${cost || !summary.missingCatalogs.length ? `${money(cost, 2)} an hour` : "cost not known"}`;
    if (count.textContent !== said) count.textContent = said;
    lay();
  }

  function lay() {
    const { width: narrowest, height, gap } = SIZES[size];
    grid.classList.toggle("dots", size === "dots");
    legend.hidden = size !== "dots";
    columns = Math.max(1, Math.floor((grid.clientWidth + gap) / (narrowest + gap)));
    const rows = Math.ceil(found.length / columns), step = height + gap;
    grid.style.height = `${Math.max(0, rows * step - gap)}px`;
    const top = grid.getBoundingClientRect().top;
    const first = Math.max(0, Math.floor(-top / step) - AHEAD), last = Math.ceil((innerHeight - top) / step) + AHEAD;
    const width = size === "dots" ? narrowest : (grid.clientWidth - gap * (columns - 1)) / columns;
    const seen = new Set();
    for (let index = first * columns; index < Math.min(found.length, last * columns); index += 1) {
      const node = found[index];
      seen.add(node.name);
      place(node, index, width, gap, step);
    }
    for (const [name, tile] of tiles) if (!seen.has(name)) { tile.item.remove(); tiles.delete(name); }
    if (!planned) { planned = true; performance.mark("dovetail:cluster-shown"); }
  }

  function place(node, index, width, gap, step) {
    let tile = tiles.get(node.name);
    if (!tile) {
      tile = { item: h("li", {}), node: null };
      tiles.set(node.name, tile);
      grid.append(tile.item);
    }
    if (tile.node !== node) {
      const held = tile.item.contains(document.activeElement);
      fill(tile.item, SIZES[size].draw(node, store.summary.at));
      tile.node = node;
      if (held) tile.item.firstChild.focus({ preventScroll: true });
    }
    const style = tile.item.style;
    style.width = `${width}px`;
    style.transform = `translate(${(index % columns) * (width + gap)}px, ${Math.floor(index / columns) * step}px)`;
    tile.item.setAttribute("aria-setsize", found.length);
    tile.item.setAttribute("aria-posinset", index + 1);
    tile.item.dataset.index = index;
  }

  // Arrow keys move the focus between tiles and scroll it into view.
  grid.addEventListener("keydown", (event) => {
    const move = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns }[event.key];
    const item = event.target.closest("li");
    if (!move || !item) return;
    event.preventDefault();
    focused = Math.min(found.length - 1, Math.max(0, Number(item.dataset.index) + move));
    const { height, gap } = SIZES[size], step = height + gap, top = grid.getBoundingClientRect().top + Math.floor(focused / columns) * step;
    if (top < 110) scrollBy(0, top - 110);
    else if (top + height > innerHeight) scrollBy(0, top + height - innerHeight + gap);
    lay();
    tiles.get(found[focused].name)?.item.firstChild.focus({ preventScroll: true });
  });

  let frame = 0;
  const soon = (work) => { cancelAnimationFrame(frame); frame = requestAnimationFrame(work); };
  const moved = () => soon(lay);
  addEventListener("scroll", moved, { passive: true });
  addEventListener("resize", moved);
  put(h("h1", { class: "unseen" }, "Cluster"), figures,
    h("div", { class: "bar" },
      h("label", { class: "field grow", for: "filter" }, h("span", {}, "Filter"), box),
      h("label", { class: "field", for: "sort" }, h("span", {}, "Order"), sort),
      h("label", { class: "field", for: "size" }, h("span", {}, "Show as"), shape)),
    h("p", { id: "filter-help", class: "unseen" }, "Words that must all be found. A word such as pool:general looks in that field only. Press slash to come here."),
    h("div", { class: "picks" }, states, reasons), count, legend, grid);
  draw();
  document.getElementById("main").setAttribute("aria-busy", "false");
  return {
    update: (kind) => soon(() => {
      draw();
      if (kind === "frame") performance.measure("dovetail:update", "dovetail:frame");
    }),
    stop: () => { removeEventListener("scroll", moved); removeEventListener("resize", moved); cancelAnimationFrame(frame); },
  };
}

function drawFigures(host, summary) {
  const figure = (label, value, note, extra = {}) => h("div", { class: "figure", ...extra }, h("span", { class: "label" }, label), h("b", {}, value), h("span", { class: "note" }, note));
  const { planned } = summary;
  fill(host,
    figure("Nodes", summary.nodes.toLocaleString("en-US"), counted(summary.pools.length, "NodePool"), { "data-figure": "nodes" }),
    figure("Pods", summary.pods.toLocaleString("en-US"), summary.pending ? `${summary.pending} waiting` : "none waiting", { "data-figure": "pods" }),
    drawCost(figure, summary),
    figure("CPU requested", `${percent(summary.cpu)}%`, "of allocatable", { "data-figure": "cpu" }),
    figure("Memory requested", `${percent(summary.memory)}%`, "of allocatable", { "data-figure": "memory" }),
    planned && h("a", { class: "figure", href: "#/plan", "data-figure": "plan" }, h("span", { class: "label" }, "Next pass"),
      h("b", {}, planned.nodes ? `${counted(planned.nodes, "node")} would be disrupted` : summary.missingCatalogs.length ? "not known" : "nothing"),
      h("span", { class: "note" }, planned.nodes ? `${money(planned.savingPerMonth, 2)} a month less` : summary.missingCatalogs.length ? "prices are missing" : "every node stays")),
    summary.missingCatalogs.map((each) => h("div", { class: "figure warn" }, h("span", { class: "label" }, "No prices"), h("b", {}, each.nodepools.join(", ")), h("span", { class: "note" }, each.message))),
    summary.paused && h("div", { class: "figure warn" }, h("span", { class: "label" }, "Paused"), h("b", {}, "all"), h("span", { class: "note" }, summary.paused)));
}

// Without the prices of some nodes the cost is only the least that it can be.
function drawCost(figure, { costPerHour: cost, unpricedNodes: unpriced }) {
  const value = cost || !unpriced ? money(cost) : "not known";
  const note = unpriced ? `without ${counted(unpriced, "node")} of unknown price` : `${monthly(cost)} a month`;
  return figure(unpriced && cost ? "Cost an hour, at least" : "Cost an hour", value, note, { "data-figure": "cost" });
}

const LEGEND = [["next", "is disrupted in the next pass"], ["going", "is being disrupted or drained"], ["coming", "is being launched"], ["until", "waits until a known time"], ["permanent", "stays until a user changes something"], ["open", "may change at any time"], ["foreign", "not managed by Dovetail"]];

function kindOf(node) {
  if (node.code === "Unmanaged") return "foreign";
  if (["Draining", "Disrupting", "Lost"].includes(node.state)) return "going";
  if (!["Ready", "Cordoned"].includes(node.state)) return "coming";
  return node.code === "Next" ? "next" : node.until ? "until" : node.permanent ? "permanent" : "open";
}

// The smallest view of a node: what it waits for, as a color and as text.
function drawDot(node) {
  const said = `${node.name}, ${node.state}: ${node.because ?? ""}`;
  return h("a", { class: `dot ${kindOf(node)}`, href: link("node", node.name), title: said, "aria-label": said });
}

function drawTile(node, now) {
  const cpu = percent(node.cpu), memory = percent(node.memory);
  const lasts = node.until ? `${node.by ? `${node.by} from` : "until"} ${utc(node.until, now)}` : node.permanent ? "permanent" : "";
  const bar = (share) => h("span", { class: "track" }, h("span", { class: "used", style: { width: `${Math.min(100, share)}%` } }));
  return h("a", { class: `tile state-${node.state.toLowerCase()}`, href: link("node", node.name),
    title: `${node.because ?? ""}${lasts ? ` (${lasts})` : ""}` },
    h("span", { class: "line" }, h("span", { class: "dot", "aria-hidden": "true" }), h("span", { class: "name" }, node.name), h("span", { class: "price" }, node.managed ? (node.price ? money(node.price) : "?") : "")),
    h("span", { class: "line small" }, h("span", { class: "state" }, node.state), h("span", { class: "what" }, node.pool || "unmanaged"), node.created && h("span", { class: "age" }, age(node.created, now))),
    h("span", { class: "line small" }, h("span", { class: "what" }, [node.type, node.capacity, node.zone].filter(Boolean).join(" · "))),
    h("span", { class: "line use", title: `cpu ${cores(node.cpu[0])} of ${cores(node.cpu[1])}, memory ${bytes(node.memory[0])} of ${bytes(node.memory[1])}` },
      h("span", { class: "unit" }, "cpu"), bar(cpu), h("span", { class: "share" }, `${cpu}%`), h("span", { class: "unit" }, "mem"), bar(memory), h("span", { class: "share" }, `${memory}%`)),
    h("span", { class: `line waits${node.code === "Next" ? " next" : ""}` }, h("span", { class: "why" }, node.because ?? "…"),
      lasts && h("span", { class: node.permanent ? "lasts permanent" : "lasts until" }, node.until ? utc(node.until, now).replace(" UTC", "") : lasts)));
}
