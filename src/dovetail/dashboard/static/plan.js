// What the next pass would do, and for every other node what stands in the way.
import { badge, counted, h, lasting, money, nodeLink, table, time } from "./dom.js";
import { ask } from "./store.js";

export const title = () => "Plan";
const FEW = 200;

export function open({ put, at, setQuery }) {
  let filter = at.query.get("q") ?? "", all = false, rows = null, plan = null;
  async function load() {
    plan = await ask("api/plan");
    return draw;
  }

  function draw() {
    rows = h("div", {});
    const held = document.activeElement?.id === "left-filter" ? document.activeElement.selectionStart : null;
    const box = h("input", { id: "left-filter", type: "search", value: filter, placeholder: "name or reason", oninput: (event) => { filter = event.target.value; setQuery({ q: filter }); fillRows(); } });
    put(h("h1", {}, "What the next pass would do"),
      h("p", { class: "facts" }, "At ", time(plan.at), `, of ${counted(plan.nodes, "node")}: `,
        plan.commands.length ? [counted(plan.commands.length, "command"), ", ", h("b", { "data-figure": "plan-saving" }, money(plan.savingPerMonth, 2)), " a month saved."] : plan.missingCatalogs.length ? "not known." : "nothing would be disrupted."),
      h("div", { class: "commands" }, plan.commands.map(command)),
      h("details", { "data-key": "budgets" }, h("summary", {}, "Budgets"), table("Budgets", ["NodePool", "Reason", "Allowed", "Going"],
        plan.budgets.map((each) => [each.nodepool, each.reason, each.fault ?? each.limit ?? "no limit", each.disrupting]), { numeric: [2, 3] })),
      h("section", { "aria-labelledby": "left" }, h("h2", { id: "left" }, "Left alone"),
        h("div", { class: "bar" }, h("label", { class: "field grow", for: "left-filter" }, h("span", {}, "Filter"), box)), rows));
    fillRows();
    if (held !== null) { box.focus(); box.setSelectionRange(held, held); }
  }

  function fillRows() {
    const wanted = filter.toLowerCase();
    const found = plan.leftAlone.filter((each) => `${each.node} ${each.because}`.toLowerCase().includes(wanted));
    const shown = all ? found : found.slice(0, FEW);
    rows.replaceChildren(h("p", { class: "quiet", role: "status", "data-count": found.length }, counted(found.length, "node")),
      table("Nodes left alone", ["Node", "Lasts", "Because"], shown.map((each) => [nodeLink(each.node), [lasting(each, plan.at), each.by && ` (${each.by})`], each.because]), { stack: true }));
    if (shown.length < found.length) rows.append(h("button", { type: "button", onclick: () => { all = true; fillRows(); } }, `Show all ${found.length.toLocaleString("en-US")}`));
  }
  return { load };
}

function command(each) {
  const nodes = each.nodes.length;
  return h("article", { class: "command-card" },
    h("h2", {}, badge(each.decision), ` ${counted(nodes, "node")}: ${each.reason} `, h("span", { class: "quiet" }, each.method)),
    h("p", {}, h("b", {}, money(Math.abs(each.savingPerMonth), 2)), ` a month ${each.savingPerMonth >= 0 ? "less" : "more"}, ${counted(each.podsMoved, "pod")} moved`),
    h("p", { class: "wrap" }, each.nodes.flatMap((name, index) => [index ? ", " : "", nodeLink(name)])),
    h("p", {}, "Replaced by ", each.replacements.length ? each.replacements.map((one) => `${one.instanceTypes[0] ?? "a node"}${one.instanceTypes.length > 1 ? ` or ${counted(one.instanceTypes.length - 1, "other")}` : ""} of ${one.nodepool}`).join("; ") : "nothing"),
    h("p", { class: "quiet" }, "Budget used: ", each.budgetUsed.map((one) => `${one.nodepool} ${one.used} ${one.limit === null ? "(no limit)" : `of ${one.limit}`}`).join(", ")));
}
