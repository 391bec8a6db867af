"""Batch jobs of OpenAI and Gemini."""
