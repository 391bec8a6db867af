"""Readers of the data that people have: images, tables, archives, prompts inside image files.

`images` opens images for requests, `tables` reads rows of csv, tsv, json, jsonl, xlsx, parquet, arrow and tar files, and
`containers` reads images inside such files. All of it is untrusted: paths stay in the data folder, and sizes are limited. A
file that cannot be read raises `DataError` with file and row; a missing optional package raises `MissingExtra`.
"""
