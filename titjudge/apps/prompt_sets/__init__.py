"""Sets of prompts: made by the recipes of papers, audited, reviewed by people."""
