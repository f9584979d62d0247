"""Audits of observed labels: probable missing and wrong labels, and the folder that holds them."""
