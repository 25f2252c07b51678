"""Schedules in the formats of others: pictures, and files that other programs read."""
