"""Tests against a real model server."""
