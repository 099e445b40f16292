"""The AWS provider: EC2 instances for NodeClaims, described by EC2NodeClasses. Needs the extra `dovetail[aws]`."""
