"""Basis of all packages: types, errors, configuration, files, images, prompts."""
