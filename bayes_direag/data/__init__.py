"""Observations: from files of any form to arrays."""
