"""What a certificate rests on: rounding, linear bounds, pairs, errors by layer, the guard."""
