"""Validation of EC2NodeClasses."""
