"""Engines: how a plan runs on buffers, and the MPI library's own collectives beside it."""
