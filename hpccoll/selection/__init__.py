"""Selecting the MPI library's own algorithms by name, and showing that the choice takes effect."""
