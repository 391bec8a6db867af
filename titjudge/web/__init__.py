"""Local web pages: labelling and live view."""
