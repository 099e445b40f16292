// What the cluster costs, the least it could cost, what it cost over time, and the dollars that commands saved.
import { chart } from "./chart.js";
import { counted, fill, h, link, money, monthly, select, table, time, utc } from "./dom.js";
import { ask } from "./store.js";

export const title = () => "Cost";
const WINDOWS = [["", "everything recorded"], ["1h", "the last hour"], ["6h", "6 hours"], ["24h", "a day"], ["7d", "a week"], ["30d", "30 days"]];

export function open({ put, store, at, setQuery }) {
  let since = at.query.get("since") ?? "", framed = false;
  const figures = h("div", { class: "figures" }), notes = h("div", {}), costNote = h("p", { class: "quiet" }), tables = h("div", { class: "columns" });
  const amount = (value, digits) => money(value, digits ?? (Math.abs(value) < 0.1 && value ? 4 : 2));
  const cost = chart({ key: "cost", label: "Cost per hour", unit: " an hour", text: (value, digits) => money(value, digits ?? 3) });
  const saved = chart({ key: "saved", label: "Saved by disruption", unit: "", text: amount });

  async function load() {
    const query = since ? `?since=${encodeURIComponent(since)}` : "";
    const [savings, costs] = await Promise.all([ask(`api/savings${query}`), ask(`api/cost${query}`)]);
    return () => draw(savings, costs);
  }

  function frame() {
    framed = true;
    put(h("h1", { class: "unseen" }, "Cost"), figures,
      h("div", { class: "bar" }, select("Time", WINDOWS, since, (value) => {
        since = value;
        setQuery({ since });
        load().then((again) => again(), () => {}); // the head says that the connection is lost
      })), notes,
      h("section", { "aria-labelledby": "cost-title" }, h("h2", { id: "cost-title" }, "Cost per hour ", h("span", { class: "quiet" }, "dollars, by NodePool")), cost.element, costNote),
      h("section", { "aria-labelledby": "saved-title" }, h("h2", { id: "saved-title" }, "Saved by disruption ", h("span", { class: "quiet" }, "cumulative dollars, by reason")), saved.element),
      tables,
      h("details", { "data-key": "meaning" }, h("summary", {}, "What these figures mean"),
        h("p", {}, "The least possible cost is a lower bound for these pods at current prices. It allows fractions of nodes, so even an optimal cluster costs more."),
        h("p", {}, "Saved is money: what the nodes that commands removed would have cost, less what replaced them, until that capacity was launched again or would have expired."),
        h("p", {}, "Cost is recorded every few seconds while this process reads the cluster, and kept in its memory: by the minute for 6 hours, by 10 minutes for 3 days, by the hour for 60 days.")));
  }

  function draw(savings, costs) {
    if (!framed) frame();
    drawFigures(figures, savings, costs);
    fill(notes, costs.unpricedNow > 0 && h("p", { class: "notice", "data-unpriced": costs.unpricedNow }, `Cost unknown for ${counted(costs.unpricedNow, "node")}: the real cost is higher than the cost shown.`));
    cost.update(costData(costs));
    fill(costNote, recordedSince(costs));
    saved.update(savedData(savings));
    fill(tables, reasons(savings), pools(store.summary?.pools ?? []));
  }
  return { load };
}

const figure = (key, label, value, note) => h("div", { class: "figure", "data-figure": key }, h("span", { class: "label" }, label), h("b", {}, value), h("span", { class: "note" }, note));
const dollars = (amount) => money(amount, Math.abs(amount) < 0.1 && amount ? 4 : 2);

function drawFigures(host, savings, costs) {
  const { costPerHour: cost, lowerBoundPerHour: bound } = savings, least = costs.unpricedNow > 0;
  fill(host,
    figure("cost", least ? "Cost an hour, at least" : "Cost an hour", cost || !least ? money(cost) : "not known", cost || !least ? `${monthly(cost)} a month` : "prices are missing"),
    figure("bound", "Least possible", bound === null ? "…" : money(bound), bound === null ? (savings.lowerBoundAt ? "the solver found none" : "being computed") : `${monthly(bound)} a month, by linear program`),
    figure("gap", "Above the least", bound && !least ? `${Math.round((cost / bound - 1) * 100)}%` : "–", bound === null || least ? "" : `${money(Math.max(0, cost - bound))} an hour`),
    figure("spent", "Spent", costs.knownSeconds ? dollars(costs.dollars) : "–", costs.knownSeconds ? `in ${length(costs.knownSeconds)} recorded` : "nothing recorded yet"),
    figure("saved", savings.saved < 0 ? "Extra cost of disruption" : "Saved by disruption", savings.saved === null ? "–" : dollars(Math.abs(savings.saved)), savings.saved === null ? "not known" : `since ${utc(savings.since)}`));
}

function length(seconds) {
  const minutes = Math.round(seconds / 60), hours = Math.floor(minutes / 60);
  if (minutes < 2) return `${Math.round(seconds)} s`;
  if (hours < 1) return `${minutes} min`;
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

function recordedSince({ knownSince, costPerHour }) {
  if (!knownSince || !costPerHour.length) return null;
  return ["Recorded by this process since ", time(knownSince), costPerHour.includes(null) ? "; gray where the cluster was not read." : "."];
}

function costData({ since, until, knownSince, firstAt, stepSeconds, costPerHour, unpricedNodes, nodePools }) {
  const from = Date.parse(since), to = Date.parse(until), known = Date.parse(knownSince), step = stepSeconds * 1000;
  const points = costPerHour.map((_, index) => {
    const at = Date.parse(firstAt) + index * step;
    return { at: Math.max(at, known, from), until: Math.min(at + step, to), note: unpricedNodes[index] ? `cost unknown for ${counted(unpricedNodes[index], "node")}` : "" };
  });
  const series = nodePools.map((each) => ({ name: each.name, values: each.costPerHour }));
  if (series.length !== 1) series.push({ name: "total", values: costPerHour, total: true });
  const values = costPerHour.filter((each) => each !== null);
  const summary = `Between ${money(Math.min(...values))} and ${money(Math.max(...values))} an hour, at last ${money(values.at(-1) ?? 0)}.`;
  return { from, to, points, series, stacked: true, summary, empty: knownSince ? "The cost was recorded only once so far: a line needs a minute." : "No cost is recorded yet." };
}

function savedData({ since, until, steps, saved, missing, notCounted }) {
  const names = Object.keys(steps[0]?.byReason ?? {});
  const moved = names.filter((name) => steps.some((each) => each.byReason[name]));
  const series = moved.map((name) => ({ name, values: steps.map((each) => each.byReason[name]) }));
  if (series.length !== 1) series.push({ name: "total", values: steps.map((each) => each.saved), total: true });
  const empty = missing ? `Not known: ${missing}.` : notCounted ? `The saving of ${counted(notCounted, "command")} is not known.` : "No decisions yet: no command has removed a node in this time.";
  return { from: Date.parse(since), to: Date.parse(until), points: steps.map((each) => ({ at: Date.parse(each.at), note: "" })), series, stacked: false, empty,
    summary: saved === null ? "" : `${dollars(Math.abs(saved))} ${saved < 0 ? "more spent" : "saved"} by ${utc(until)}.` };
}

function reasons({ byReason, notCounted }) {
  const most = Math.max(...byReason.map((each) => Math.abs(each.saved)), 1e-9);
  return h("section", { "aria-labelledby": "reasons" }, h("h2", { id: "reasons" }, "Saved by reason"),
    byReason.length ? table("Savings by reason", ["Reason", "Commands", "Nodes", "Saved", "Share"],
      byReason.map((each) => [h("a", { href: `${link("decisions")}?act=disrupt&reason=${each.reason}` }, each.reason), each.commands, each.nodes, dollars(each.saved),
        h("span", { class: "track wide", "aria-hidden": "true" }, h("span", { class: each.saved < 0 ? "used over" : "used", style: { width: `${(Math.abs(each.saved) / most) * 100}%` } }))]), { numeric: [1, 2, 3] })
      : h("p", { class: "quiet" }, "No command saved or cost money in this time."),
    notCounted > 0 && h("p", { class: "quiet" }, `The saving of ${counted(notCounted, "command")} is not known: no price, or recorded by an earlier version.`));
}

const pools = (list) => h("section", { "aria-labelledby": "pools" }, h("h2", { id: "pools" }, "Cost by NodePool"),
  table("Cost by NodePool", ["NodePool", "Nodes", "$/hour", "$/month"], list.map((each) => [h("a", { href: link("pools", each.name) }, each.name), each.nodes, money(each.costPerHour), monthly(each.costPerHour)]), { numeric: [1, 2, 3] }));
