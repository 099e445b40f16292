// The ledger as a timeline: each entry opens to its plan, what moved, what it cost before and after, and how it ended.
import { age, badge, counted, h, link, money, monthly, nodeLink, select, table, time } from "./dom.js";
import { ask } from "./store.js";

export const title = () => "Decisions";
const MOST = 500;
const VERBS = { launch: "launched", disrupt: "disrupted", remove: "removed" };
const REASONS = ["Provisioned", "Expired", "Drifted", "Empty", "Underutilized", "Unhealthy", "Interrupted", "Manual"];

export function open({ put, store, at, setQuery }) {
  const asked = Object.fromEntries(["act", "reason", "nodepool", "since", "node"].map((key) => [key, at.query.get(key) ?? ""]));
  const chosen = at.query.get("id");
  let list = null, first = true;
  async function load() {
    const query = new URLSearchParams({ most: MOST });
    for (const [key, value] of Object.entries(asked)) if (value) query.set(key, value);
    const told = await ask(`api/history?${query}`);
    return () => {
      if (!list) frame();
      drawList(told.decisions, told.missing);
    };
  }
  const change = (key) => (value) => { asked[key] = value; setQuery({ [key]: value, id: "" }); load().then((draw) => draw()); };

  function frame() {
    list = h("div", {});
    const pools = (store.summary?.pools ?? []).map((each) => [each.name, each.name]);
    put(h("h1", {}, "Decisions"),
      h("div", { class: "bar" },
        select("What", [["", "everything"], ...Object.entries(VERBS)], asked.act, change("act")),
        select("Reason", [["", "every reason"], ...REASONS.map((each) => [each, each])], asked.reason, change("reason")),
        select("NodePool", [["", "every NodePool"], ...pools], asked.nodepool, change("nodepool")),
        select("Since", [["", "the beginning"], ["1h", "an hour ago"], ["24h", "a day ago"], ["7d", "a week ago"], ["30d", "a month ago"]], asked.since, change("since")),
        h("label", { class: "field grow" }, h("span", {}, "Node or NodeClaim"),
          h("input", { type: "search", value: asked.node, placeholder: "its whole name", onchange: (event) => change("node")(event.target.value.trim()) }))),
      list);
  }

  function drawList(decisions, missing) {
    const now = store.summary?.at;
    const open = new Set([...list.querySelectorAll("details")].filter((each) => each.open).map((each) => each.dataset.key));
    const done = decisions.filter((each) => each.act === "disrupt" && each.outcome === "done");
    const saved = done.reduce((sum, each) => sum + each.costPerHourBefore - each.costPerHourAfter, 0);
    const days = new Map();
    for (const each of decisions) (days.get(each.at.slice(0, 10)) ?? days.set(each.at.slice(0, 10), []).get(each.at.slice(0, 10))).push(each);
    list.replaceChildren(
      h("p", { class: "quiet", role: "status", "data-count": decisions.length },
        decisions.length === MOST ? `The newest ${MOST} decisions` : counted(decisions.length, "decision"),
        done.length ? `; ${counted(done.length, "command")} saved ${monthly(saved)} a month` : ""),
      ...[...days].map(([day, entries]) => h("section", { "aria-label": day },
        h("h2", { class: "day" }, day, h("span", { class: "quiet" }, ` UTC, ${counted(entries.length, "decision")}`)),
        h("ol", { class: "timeline" }, entries.map((each) => h("li", {}, entry(each, now, open.has(each.id) || (first && each.id === chosen))))))));
    if (!decisions.length) list.append(h("p", {}, missing ?? "The ledger has no such decision."));
    if (first && chosen) list.querySelector(`[data-key="${CSS.escape(chosen)}"]`)?.scrollIntoView({ block: "center" });
    first = false;
  }
  return { load };
}

export function entry(each, now, open = false) {
  const exact = each.costPerHourBefore - each.costPerHourAfter, saving = Math.abs(exact) < 0.0005 ? 0 : exact;
  const about = each.act === "launch" ? each.made : each.nodes;
  const names = about.map((one) => one.node || one.nodeClaim);
  return h("details", { "data-key": each.id, open },
    h("summary", {},
      h("span", { class: "when" }, time(each.at, each.at), now && h("span", { class: "ago" }, ` ${age(each.at, now)} ago`)),
      badge(each.act, VERBS[each.act] ?? each.act), h("span", { class: "reason" }, each.reason),
      h("span", { class: "about mono" }, names.slice(0, 2).join(", "), names.length > 2 && ` and ${names.length - 2} more`),
      h("span", { class: saving > 0 ? "saving less" : "saving more" }, saving ? `${saving > 0 ? "−" : "+"}${money(Math.abs(saving))}/h` : "same cost"),
      badge(`outcome-${each.outcome}`, each.outcome)),
    h("div", { class: "entry" },
      h("p", {}, h("b", {}, each.why), each.note && `. ${each.note}`),
      h("dl", {},
        pair("Method", each.method), pair("Taken", time(each.at)), pair("Ended", each.endedAt ? [time(each.endedAt), `, after ${age(each.at, each.endedAt)}`] : "not yet"),
        pair("Outcome", each.note ? `${each.outcome}: ${each.note}` : each.outcome),
        pair("Cost an hour", `${money(each.costPerHourBefore)} → ${money(each.costPerHourAfter)}, ${money(each.savingPerMonth, 2)} a month ${each.savingPerMonth >= 0 ? "saved" : "more"}`),
        pair("Pods", `${each.podsMoved}`), pair("Replacements", `${each.replacements}`),
        pair("Decision", h("a", { href: `${link("decisions")}?id=${encodeURIComponent(each.id)}`, class: "mono" }, each.id))),
      each.nodes.length > 0 && nodes("Nodes that went", each.nodes), each.made.length > 0 && nodes("Nodes that came", each.made),
      each.pods.length > 0 && h("details", { "data-key": `${each.id}-pods` }, h("summary", {}, `${counted(each.pods.length, "pod")} by name`), h("p", { class: "mono wrap" }, each.pods.join(", "))),
      h("p", { class: "quiet" }, "Why other nodes were left alone changes with the cluster: ", h("a", { href: "#/plan" }, "what stands in their way now"), ".")));
}

const pair = (name, value) => value ? h("div", {}, h("dt", {}, name), h("dd", {}, value)) : null;

function nodes(caption, list) {
  return table(caption, [caption, "NodePool", "Type", "Capacity", "Zone", "$/hour"], list.map((each) => [
    each.node ? nodeLink(each.node) : h("span", { class: "mono" }, `nodeclaim/${each.nodeClaim}`), each.nodePool, each.instanceType, each.capacityType, each.zone,
    each.pricePerHour === null ? "" : money(each.pricePerHour)]), { numeric: [5] });
}
