"""What every other package uses: types, errors, configuration, files, images, prompts."""

import logging

logging.getLogger("titjudge").addHandler(logging.NullHandler())  # silent unless somebody asks for the log
