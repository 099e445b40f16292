// What the cluster costs, the least it could cost, and the dollars that commands saved in a window, by reason and over time.
import { counted, h, link, money, monthly, select, table, utc } from "./dom.js";
import { ask } from "./store.js";

export const title = () => "Savings";

export function open({ put, store, at, setQuery }) {
  let since = at.query.get("since") ?? "";
  async function load() {
    const data = await ask(`api/savings${since ? `?since=${encodeURIComponent(since)}` : ""}`);
    return () => draw(data);
  }

  function draw(data) {
    const { costPerHour: cost, lowerBoundPerHour: bound } = data;
    const pools = store.summary?.pools ?? [];
    const most = Math.max(...data.byReason.map((each) => Math.abs(each.saved)), 1e-9);
    put(h("h1", { class: "unseen" }, "Savings"),
      h("div", { class: "figures" },
        figure("cost", "Cost an hour", money(cost), `${monthly(cost)} a month`),
        figure("bound", "Least possible", bound === null ? "…" : money(bound), bound === null ? (data.lowerBoundAt ? "the solver found none" : "being computed") : `${monthly(bound)} a month, by linear program`),
        figure("gap", "Above the least", bound ? `${Math.round((cost / bound - 1) * 100)}%` : "–", bound === null ? "" : `${money(Math.max(0, cost - bound))} an hour`),
        figure("saved", data.saved < 0 ? "Extra cost of disruption" : "Saved by disruption", data.saved === null ? "–" : dollars(Math.abs(data.saved)), data.saved === null ? "not known" : `since ${utc(data.since)}`)),
      h("p", { class: "quiet" }, "The least possible cost is a lower bound for these pods at current prices. It allows fractions of nodes, so even an optimal cluster costs more."),
      h("p", { class: "quiet" }, "Saved is money: what the nodes that commands removed would have cost, less what replaced them, until that capacity was launched again or would have expired.",
        data.notCounted > 0 && ` The saving of ${counted(data.notCounted, "command")} is not known: no price, or recorded by an earlier version.`),
      h("div", { class: "bar" }, select("Saved since", [["", "the beginning"], ["24h", "a day ago"], ["7d", "a week ago"], ["30d", "a month ago"]], since, (value) => {
        since = value;
        setQuery({ since });
        load().then((again) => again());
      })),
      data.missing && h("p", { class: "notice" }, data.missing),
      data.steps.length > 0 && h("section", { "aria-labelledby": "steps" }, h("h2", { id: "steps" }, "Saved over time"), chart(data.steps)),
      h("div", { class: "columns" },
        h("section", { "aria-labelledby": "reasons" }, h("h2", { id: "reasons" }, "By reason"),
          data.byReason.length ? table("Savings by reason", ["Reason", "Commands", "Nodes", "Saved", "Share"],
            data.byReason.map((each) => [h("a", { href: `${link("decisions")}?act=disrupt&reason=${each.reason}` }, each.reason), each.commands, each.nodes, dollars(each.saved),
              h("span", { class: "track wide", "aria-hidden": "true" }, h("span", { class: each.saved < 0 ? "used over" : "used", style: { width: `${(Math.abs(each.saved) / most) * 100}%` } }))]), { numeric: [1, 2, 3] })
            : h("p", { class: "quiet" }, "No command saved or cost money in this time.")),
        h("section", { "aria-labelledby": "pools" }, h("h2", { id: "pools" }, "By NodePool"),
          table("Cost by NodePool", ["NodePool", "Nodes", "$/hour", "$/month"], pools.map((each) => [h("a", { href: link("pools", each.name) }, each.name), each.nodes, money(each.costPerHour), monthly(each.costPerHour)]), { numeric: [1, 2, 3] }))));
  }
  return { load };
}

const figure = (key, label, value, note) => h("div", { class: "figure", "data-figure": key }, h("span", { class: "label" }, label), h("b", {}, value), h("span", { class: "note" }, note));

const dollars = (amount) => money(amount, Math.abs(amount) < 0.1 ? 4 : 2);

// Dollars saved since the start of the window.
function chart(steps) {
  const width = 1180, height = 210, left = 64, bottom = 26, top = 14;
  const first = Date.parse(steps[0].at), last = Math.max(Date.parse(steps.at(-1).at), first + 1);
  const values = [0, ...steps.map((each) => each.saved)];
  const low = Math.min(...values), high = Math.max(...values, low + 1e-6);
  const x = (at) => left + ((at - first) / (last - first)) * (width - left - 8);
  const y = (value) => top + (1 - (value - low) / (high - low)) * (height - top - bottom);
  const path = steps.map((each, at) => `${at ? "L" : "M"} ${x(Date.parse(each.at)).toFixed(1)} ${y(each.saved).toFixed(1)}`).join(" ");
  const summary = `From ${utc(steps[0].at)} to ${utc(steps.at(-1).at)}: ${dollars(steps.at(-1).saved)} saved.`;
  const label = (value) => h("text", { x: left - 8, y: y(value) + 4, "text-anchor": "end" }, dollars(value));
  return h("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": summary },
    h("line", { class: "axis", x1: left, x2: width - 8, y1: y(0), y2: y(0) }),
    h("path", { class: "area", d: `${path} L ${width - 8} ${y(0)} L ${left} ${y(0)} Z` }), h("path", { class: "steps", d: path }),
    label(high), low < 0 ? label(low) : null, label(0),
    h("text", { x: left, y: height - 6 }, utc(steps[0].at)), h("text", { x: width - 8, y: height - 6, "text-anchor": "end" }, utc(steps.at(-1).at)));
}
