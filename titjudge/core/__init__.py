"""What every other package uses: types, errors, configuration, files, images, prompts."""
