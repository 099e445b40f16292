// Short names of refusal codes, for chips and filters. A test checks that every code has one.
const LABELS = {
  Unreadable: "object cannot be read", InternalError: "internal error", Unmanaged: "not managed by Dovetail",
  AlreadyDisrupting: "being disrupted", Replacement: "replacement of another node", NodeMissing: "node is missing",
  NotInitialized: "not initialized", Deleting: "being deleted", Nominated: "reserved for a pending pod",
  DoNotDisruptNode: "do-not-disrupt on the node", NoNodePool: "no NodePool label", NodePoolMissing: "NodePool is missing",
  NoProvider: "no provider", NoCatalog: "prices not known", Paused: "disruption is paused",
  DoNotDisruptPod: "do-not-disrupt on a pod", UnknownDevices: "pod with resource claims", PodDisruptionBudget: "a PodDisruptionBudget",
  UnplannedPod: "new pod on the node", Expecting: "pending pods come to it",
  Waiting: "waits for a delay", Never: "never, by configuration", Static: "fixed number of nodes", GateClosed: "feature gate is off",
  NotDrifted: "not drifted", DriftNotFixed: "drift is stopped", Empty: "empty", NotEmpty: "not empty",
  ConsolidationDisabled: "consolidation is off", PolicyWhenEmpty: "policy WhenEmpty", InstanceTypeUnknown: "unknown instance type",
  LabelMissing: "label is missing", CoolingDown: "pods just moved", Budget: "disruption budget", BudgetUnreadable: "invalid budget", BackingOff: "waits after failures",
  Unschedulable: "pods fit nowhere else", CantReplace: "nothing cheaper", NotBalanced: "saves too little", SavesTooLittle: "below minSavings", Preference: "scheduling preference",
  DrainWouldStall: "drain would not end", LaunchBackoff: "launches do not help", ReplacementNotInitialized: "replacement not ready",
  DestinationNotInitialized: "waits for a starting node", AnotherFirst: "another command first", NextPass: "a later pass",
  NoSet: "no group saves money", NotTheBest: "another node saves more", CandidatesChanged: "the cluster changed",
  BudgetsChanged: "budgets changed", SimulationChanged: "scheduling changed", Coming: "starting", Disrupting: "being disrupted",
  Draining: "draining", Unhealthy: "unhealthy", ConfiguredElsewhere: "not for NodePools", InvalidPod: "invalid pod",
  NoCompatibleInstanceTypes: "no compatible instance type", Next: "next pass",
};

export const label = (code) => LABELS[code] ?? code;
