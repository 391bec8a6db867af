"""Few human labels and many scores of a judge: prediction-powered estimates, cascades, bridges between judges."""
