"""How far a judge can be believed: probes and cards, canaries, people and judges joined, cascades, forgetting curves."""
