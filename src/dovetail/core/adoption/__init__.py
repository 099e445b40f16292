"""Whether a cluster that Karpenter runs is ready for Dovetail: facts in; findings, a comparison and steps out."""
