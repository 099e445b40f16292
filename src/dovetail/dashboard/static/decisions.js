// The ledger as a timeline: each entry opens to its plan, what else was refused, what moved, what it cost, and how it ended.
import { age, badge, counted, fill, h, lasting, link, money, nodeLink, select, table, time } from "./dom.js";
import { label } from "./labels.js";
import { ask } from "./store.js";

export const title = () => "Decisions";
const MOST = 500;
const VERBS = { launch: "launched", disrupt: "disrupted", remove: "removed" };
const REASONS = ["Provisioned", "Expired", "Drifted", "Empty", "Underutilized", "Unhealthy", "Interrupted", "Manual",
  "GarbageCollected", "InsufficientCapacity", "NodeClassNotReady", "LaunchTimeout", "RegistrationTimeout", "RolledBack"];

export function open({ put, store, at, setQuery }) {
  const filters = Object.fromEntries(["act", "reason", "nodepool", "since", "node"].map((key) => [key, at.query.get(key) ?? ""]));
  let chosen = at.query.get("id"), linked = null;
  let list = null, first = true;
  async function load() {
    const query = new URLSearchParams({ most: MOST });
    for (const [key, value] of Object.entries(filters)) if (value) query.set(key, value);
    const data = await ask(`api/history?${query}`);
    if (chosen && !data.decisions.some((each) => each.id === chosen)) await recall();
    return () => {
      if (!list) frame();
      drawList(data.decisions, data.missing);
    };
  }
  // A link may name a decision that is older than the list, or that its filters leave out.
  async function recall() {
    if (linked) return;
    try {
      const data = await ask(`api/decision/${encodeURIComponent(chosen)}`);
      linked = () => h("ol", { class: "timeline" }, h("li", {}, entry(data, null, true)));
    } catch (error) {
      linked = () => h("div", { class: "notice", role: "alert" }, h("p", {}, error.message));
    }
  }
  const change = (key) => (value) => {
    filters[key] = value;
    chosen = linked = null;
    setQuery({ [key]: value, id: "" });
    load().then((draw) => draw(), () => {}); // the head says that the connection is lost
  };

  function frame() {
    list = h("div", {});
    const pools = (store.summary?.pools ?? []).map((each) => [each.name, each.name]);
    put(h("h1", {}, "Decisions"),
      h("div", { class: "bar" },
        select("What", [["", "everything"], ...Object.entries(VERBS)], filters.act, change("act")),
        select("Reason", [["", "every reason"], ...REASONS.map((each) => [each, each])], filters.reason, change("reason")),
        select("NodePool", [["", "every NodePool"], ...pools], filters.nodepool, change("nodepool")),
        select("Since", [["", "the beginning"], ["1h", "an hour ago"], ["24h", "a day ago"], ["7d", "a week ago"], ["30d", "a month ago"]], filters.since, change("since")),
        h("label", { class: "field grow" }, h("span", {}, "Node or NodeClaim"),
          h("input", { type: "search", value: filters.node, placeholder: "full name", onchange: (event) => change("node")(event.target.value.trim()) }))),
      list);
  }

  function drawList(decisions, missing) {
    const now = store.summary?.at;
    const open = new Set([...list.querySelectorAll("details")].filter((each) => each.open).map((each) => each.dataset.key));
    const known = decisions.filter((each) => each.saved !== null), saved = known.reduce((sum, each) => sum + each.saved, 0);
    const days = new Map();
    for (const each of decisions) (days.get(each.at.slice(0, 10)) ?? days.set(each.at.slice(0, 10), []).get(each.at.slice(0, 10))).push(each);
    list.replaceChildren(
      ...(linked ? [h("section", { "aria-label": "Linked decision" }, linked())] : []),
      h("p", { class: "quiet", role: "status", "data-count": decisions.length },
        decisions.length === MOST ? `The newest ${MOST} decisions` : counted(decisions.length, "decision"),
        known.length ? `; ${counted(known.length, "command")} ${saved < 0 ? "cost" : "saved"} ${money(Math.abs(saved), 2)}${saved < 0 ? " more" : ""} until now` : ""),
      ...[...days].map(([day, entries]) => h("section", { "aria-label": day },
        h("h2", { class: "day" }, day, h("span", { class: "quiet" }, ` UTC, ${counted(entries.length, "decision")}`)),
        h("ol", { class: "timeline" }, entries.map((each) => h("li", {}, entry(each, now, open.has(each.id) || (first && each.id === chosen))))))));
    if (!decisions.length) list.append(h("p", {}, missing ?? "No decision in the ledger matches."));
    if (first && chosen) list.querySelector(`[data-key="${CSS.escape(chosen)}"]`)?.scrollIntoView({ block: "center" });
    first = false;
  }
  return { load };
}

export function entry(each, now, open = false, day = each.at) {
  const exact = each.costPerHourBefore - each.costPerHourAfter, saving = Math.abs(exact) < 0.0005 ? 0 : exact;
  const about = each.act === "launch" ? each.made : each.nodes;
  const names = about.map((one) => one.node || one.nodeClaim);
  const weighed = h("div", { class: "weighed", "aria-live": "polite" });
  const opened = (event) => { if (event.target.open && event.target.dataset.key === each.id) showPlan(weighed, each, now); };
  if (open) showPlan(weighed, each, now);
  return h("details", { "data-key": each.id, open, ontoggle: opened },
    h("summary", {},
      h("span", { class: "when" }, time(each.at, day, true), now && h("span", { class: "ago" }, ` ${age(each.at, now)} ago`)),
      badge(each.act, VERBS[each.act] ?? each.act), h("span", { class: "reason" }, each.reason),
      h("span", { class: "about mono" }, names.slice(0, 2).join(", "), names.length > 2 && ` and ${names.length - 2} more`),
      h("span", { class: saving > 0 ? "saving less" : "saving more" }, saving ? `${saving > 0 ? "−" : "+"}${money(Math.abs(saving))}/h` : each.act === "disrupt" ? "same cost" : ""),
      badge(`outcome-${each.outcome}`, each.outcome)),
    h("div", { class: "entry" },
      h("p", {}, h("b", {}, each.why), each.note && `. ${each.note}`),
      h("dl", {},
        pair("Method", each.method), pair("Taken", time(each.at)), pair("Ended", each.endedAt ? [time(each.endedAt), `, after ${age(each.at, each.endedAt)}`] : "not yet"),
        pair("Outcome", each.note ? `${each.outcome}: ${each.note}` : each.outcome),
        pair("Cost an hour", `${money(each.costPerHourBefore)} → ${money(each.costPerHourAfter)}`),
        each.act === "disrupt" && each.outcome !== "dry run" && pair("Saved until now", each.saved === null ? "not known" : `${money(each.saved, 2)}${each.savingPerHour > 0 ? `, ${money(each.savingPerHour)} an hour now` : ""}`),
        pair("Pods", `${each.podsMoved}`), pair("Replacements", `${each.replacements}`),
        pair("Decision", h("a", { href: `${link("decisions")}?id=${encodeURIComponent(each.id)}`, class: "mono" }, each.id))),
      each.nodes.length > 0 && nodes("Removed nodes", each.nodes), each.made.length > 0 && nodes("Launched nodes", each.made),
      each.pods.length > 0 && h("details", { "data-key": `${each.id}-pods` }, h("summary", {}, `${counted(each.pods.length, "pod")} by name`), h("p", { class: "mono wrap" }, each.pods.join(", "))),
      weighed));
}

// The plan and the refusals of a decision never change: they are loaded once, when it is opened.
const known = new Map();
async function showPlan(host, each, now) {
  if (host.dataset.plan) return;
  host.dataset.plan = "loading";
  try {
    if (!known.has(each.id)) known.set(each.id, await ask(`api/decision/${encodeURIComponent(each.id)}`));
    fill(host, weighed(known.get(each.id), now));
    host.dataset.plan = "loaded";
  } catch (error) {
    delete host.dataset.plan;
    fill(host, h("p", { class: "quiet" }, error.message));
  }
}

function weighed({ id, act, at, plan, refusals }) {
  if (!plan) return h("p", { class: "quiet" }, act === "remove" ? "This was not decided by a disruption pass, so there was no plan." : "The plan of this decision was not kept.");
  const total = refusals.counts.reduce((sum, one) => sum + one.nodes, 0);
  return [
    h("h3", { class: "minor" }, "Plan"),
    h("ul", { class: "plain", "data-plan": id },
      plan.replacements.map((one) => h("li", {}, `A node of ${one.nodepool}: ${one.instanceTypes[0] ?? "any type"}${one.choices > 1 ? ` or ${counted(one.choices - 1, "other type")}` : ""}`,
        one.pricePerHour !== null && `, from ${money(one.pricePerHour)} an hour`)),
      !plan.replacements.length && h("li", {}, "No instance had to be launched."),
      plan.budgetUsed.map((one) => h("li", {}, `Budget of ${one.nodepool}: ${one.used} ${one.limit === null ? "in use, no limit" : `of ${one.limit} in use`}`))),
    h("h3", { class: "minor" }, act === "launch" ? "Pods left waiting" : "Left alone"),
    total ? refused(id, refusals, at, total) : h("p", { class: "quiet" }, act === "launch" ? "None: every pending pod was scheduled." : "No other node was considered."),
  ];
}

function refused(id, { counts, named }, at, total) {
  const methods = [...new Set(counts.map((one) => one.method))];
  return h("div", { "data-refused": total }, methods.map((method) => {
    const mine = counts.filter((one) => one.method === method), list = named.filter((one) => one.method === method);
    const all = mine.reduce((sum, one) => sum + one.nodes, 0);
    return h("details", { "data-key": `${id}-${method}` },
      h("summary", {}, h("b", {}, method), " ", mine.map((one) => [h("span", { class: "code" }, label(one.code)), ` ${one.nodes} `])),
      table(`Left alone by ${method}`, ["What", "Why", "Message", "Lasts"], list.map((one) => [h("span", { class: "mono" }, one.node), h("span", { class: "code", title: one.code }, label(one.code)), one.message, lasting(one, at)])),
      list.length < all && h("p", { class: "quiet" }, `${counted(all - list.length, "other")} of these kinds ${all - list.length === 1 ? "is" : "are"} counted but not listed.`));
  }));
}

const pair = (name, value) => value ? h("div", {}, h("dt", {}, name), h("dd", {}, value)) : null;

function nodes(caption, list) {
  return table(caption, [caption, "NodePool", "Type", "Capacity", "Zone", "$/hour"], list.map((each) => [
    each.node ? nodeLink(each.node) : h("span", { class: "mono" }, `nodeclaim/${each.nodeClaim}`), each.nodePool, each.instanceType, each.capacityType, each.zone,
    each.pricePerHour === null ? "" : money(each.pricePerHour)]), { numeric: [5] });
}
