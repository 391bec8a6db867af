"""The Python API: judges that score images in memory."""
