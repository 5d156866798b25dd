// Packed sequences: the texts of rows and keys, and tiles that share none; after attention_sight.glsl.
// From `at` on in steps of kAcross: the first tile of keys, or of rows, with a sequence of the span; or a number >= end.
// `per`: rows of one token (1 of keys).
uint next_tile(Head h, uint at, uint end, ivec2 span, uint per) {
  if (p.has_sequences == 0u) return at;
  bool found = false;
  do {
    ivec2 tile = kNothing;
    [[unroll]] for (uint j = 0u; j < kOwn; ++j) {
      tile = with_sequence(tile, sequence(h, (at + kOwn * own_lane() + j) / per));
    }
    found = overlap(over_lanes_span(tile), span);
    at += found ? 0u : kAcross;
  } while (!found && at < end);
  return at;
}
uint next_keys(Head h, uint key, uint end, ivec2 span) { return next_tile(h, key, end, span, 1u); }
uint next_rows(Head h, uint row, uint end, ivec2 span) { return next_tile(h, row, end, span, p.group); }
