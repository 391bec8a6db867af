"""Basis of all packages: types, errors, configuration, files, prompt templates, and names of metrics, providers and suites.

`types` has the records that packages exchange (`Item`, `Request`, `Reply`, `Score`, ...), `errors` every error that titjudge
raises on purpose, `config` the keys of run.yaml, `prompts` the templates, `registry` the names. This package imports no other
package of titjudge, except the objects that the registry loads by name.
"""
