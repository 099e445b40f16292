// NodePools: what each costs, what its limits leave, what its budgets allow now and in every hour of the week.
import { counted, h, lasting, link, meter, money, monthly, table, time, utc } from "./dom.js";
import { ask } from "./store.js";

export const title = (at) => at.parts[0] ? `NodePool ${at.parts[0]}` : "NodePools";

export function open({ put, store, at }) {
  const only = at.parts[0];
  async function load() {
    const names = only ? [only] : (store.summary?.pools ?? []).map((each) => each.name);
    const data = await Promise.all(names.map(async (name) => {
      const path = encodeURIComponent(name);
      const [pool, budgets] = await Promise.all([ask(`api/explain/nodepool/${path}`), ask(`api/budgets/${path}`)]);
      return { pool, budgets, cost: store.summary.pools.find((each) => each.name === name) };
    }));
    return () => put(
      only && h("nav", { class: "crumbs", "aria-label": "Where this is" }, h("a", { href: "#/pools" }, "NodePools"), " / ", only),
      h("h1", { class: only ? null : "unseen" }, only ?? "NodePools"),
      data.length ? data.map((each) => draw(each, only)) : h("p", {}, "There is no NodePool."));
  }
  return { load };
}

function draw({ pool, budgets, cost }, only) {
  const now = pool.at;
  const heading = only ? "h2" : "h3";
  const filter = `${link("cluster")}?q=${encodeURIComponent(`pool:${pool.nodepool}`)}`;
  return h("section", { class: "pool", "aria-label": `NodePool ${pool.nodepool}` },
    h("div", { class: "headline" },
      only ? null : h("h2", {}, h("a", { href: link("pools", pool.nodepool) }, pool.nodepool)),
      h("span", {}, h("a", { href: filter, "data-figure": "pool-nodes" }, counted(pool.members.length, "node")),
        pool.nodes.disrupting ? `, ${pool.nodes.disrupting} going or NotReady` : ""),
      h("span", {}, h("b", { "data-figure": "pool-cost" }, money(cost?.costPerHour ?? 0)), ` an hour, ${monthly(cost?.costPerHour ?? 0)} a month`),
      h("span", { class: "quiet" }, pool.consolidationPolicy),
      pool.minSavings && h("span", { class: "quiet", title: `turnover ${Math.round(100 * pool.minSavings.turnover)}%` },
        `minSavings ${pool.minSavings.percentage}: ${money(pool.minSavings.dollarsPerHourAndEviction)} an hour for each evicted pod`)),
    pool.noCatalog && h("p", { class: "fault", role: "alert" }, `Blocked: ${pool.noCatalog}`),
    pool.fault && h("p", { class: "fault", role: "alert" }, `Blocked: a budget cannot be understood, so nothing is disrupted: ${pool.fault}`),
    pool.dropped.map((each) => h("p", { class: "notice", role: "status" }, `Not in effect: ${each}`)),
    h("div", { class: "columns" },
      h("div", {}, h(heading, { class: "minor" }, "Allowed now"), table(`What ${pool.nodepool} allows now`, ["For", "Allowed", "Left", "Next change"],
        pool.allowed.map((each) => each.note ? [each.reason, "-", "-", each.note] : [each.reason, each.limit ?? "no limit", h("b", { class: each.left === 0 ? "none" : "some" }, each.left ?? "all"), each.changesAt ? time(each.changesAt, now) : "never"]), { numeric: [1, 2] })),
      h("div", {}, h(heading, { class: "minor" }, "Budgets"), pool.budgets.length ? table(`Budgets of ${pool.nodepool}`, ["Budget", "Nodes", "Is", "For", "Now"],
        pool.budgets.map((each) => [each.number, each.nodes, each.limit, each.reasons.length > 3 ? "everything" : each.reasons.join(", "), force(each, now)]), { numeric: [2] })
        : h("p", { class: "quiet" }, "No budget: no ceiling."),
        Object.keys(pool.limits).length > 0 && [h(heading, { class: "minor" }, "Limits"), Object.entries(pool.limits).map(([name, each]) => meter(name, [number(each.used), number(each.limit)], `${each.used} of ${each.limit}`))])),
    h(heading, { class: "minor" }, "The week"), heat(budgets, now),
    pool.conditions.length > 0 && h("details", { "data-key": `conditions-${pool.nodepool}` }, h("summary", {}, "Conditions"),
      table(`Conditions of ${pool.nodepool}`, ["Condition", "Status", "Reason", "Message"], pool.conditions.map((each) => [each.type, each.status, each.reason, each.message]))));
}

function force(each, now) {
  if (each.inForce) return h("span", { class: each.closesAt ? "lasts until" : "lasts now" }, each.closesAt ? ["in force until ", time(each.closesAt, now)] : "always in force");
  return h("span", { class: "quiet" }, each.opensAt ? ["opens ", time(each.opensAt, now)] : "never opens");
}

const UNITS = { n: 1e-9, u: 1e-6, m: 1e-3, k: 1e3, M: 1e6, G: 1e9, T: 1e12, P: 1e15, E: 1e18, Ki: 2 ** 10, Mi: 2 ** 20, Gi: 2 ** 30, Ti: 2 ** 40, Pi: 2 ** 50, Ei: 2 ** 60 };
function number(quantity) {
  const [, digits, unit] = /^([-+.\deE]*?\d\.?)([a-zA-Z]*)$/.exec(quantity) ?? [];
  return Number(digits) * (UNITS[unit] ?? 1) || 0;
}

// One map for all actions that are alike.
function heat(budgets, now) {
  const alike = new Map();
  for (const [action, hours] of Object.entries(budgets.actions)) {
    const key = JSON.stringify(hours);
    alike.set(key, [...(alike.get(key) ?? []), action]);
  }
  return h("div", { class: "heats" }, [...alike].map(([key, actions]) => map(actions.join(", "), JSON.parse(key), budgets, now)),
    Object.entries(budgets.withoutBudgets).map(([action, note]) => h("p", { "data-figure": "without-budgets" }, h("b", {}, action), `: ${note}`)));
}

function map(caption, hours, budgets, now) {
  const rows = [];
  for (let first = 0; first < hours.length; first += 24) rows.push(hours.slice(first, first + 24));
  const current = now.slice(0, 13);
  return h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": `${caption}: how many nodes may go at once, hour by hour` },
    h("table", { class: "heat" }, h("caption", {}, caption, h("span", { class: "quiet" }, ` of ${counted(budgets.nodes, "node")}, by the hour in UTC`)),
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, h("span", { class: "unseen" }, "Day")), Array.from({ length: 24 }, (_, hour) => h("th", { scope: "col" }, String(hour).padStart(2, "0"))))),
      h("tbody", {}, rows.map((row) => h("tr", {}, h("th", { scope: "row" }, utc(row[0].hour).slice(0, 6)), row.map((each) => h("td",
        { class: `${shade(each, budgets.nodes)}${each.hour.slice(0, 13) === current ? " current" : ""}`, title: `${utc(each.hour)}: ${amount(each.least)}${each.least === each.most ? "" : ` to ${amount(each.most)}`}` },
        each.least === null ? "*" : each.least, each.least !== each.most && "+")))))));
}

const amount = (each) => each === null ? "no ceiling" : String(each);

function shade(each, total) {
  if (each.least === null) return "free";
  if (!total) return "none"; // a percentage of no nodes is zero, but blocks nothing
  const share = each.least / Math.max(total, each.least);
  return share <= 0 ? "shut" : share <= 0.1 ? "little" : share <= 0.34 ? "some" : share <= 0.99 ? "much" : "free";
}
