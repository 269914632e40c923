"""The tests of evalkit."""
