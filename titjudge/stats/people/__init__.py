"""How far judges agree with people: votes, pairs, ranks, elements."""
