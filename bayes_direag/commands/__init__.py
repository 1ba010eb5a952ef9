"""The commands of ``direag`` that the core provides."""
