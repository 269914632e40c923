"""Feeding damaged files to every reader."""
