"""Ranks and strengths: mean ranks of a leaderboard, Bradley-Terry, rank correlation."""
