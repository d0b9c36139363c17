"""Populations, experiments, recordings and reports."""
