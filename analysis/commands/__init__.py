"""The commands of the front door that look at results; each reads files, calls the package and prints."""
