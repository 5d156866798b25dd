// Documents of rows and keys, and tiles that none of them shares; after the buffer `documents`.
int document(Head h, uint token) {
  return p.has_documents != 0u ? documents[h.batch * p.queries + min(token, p.queries - 1u)] : 0;
}

// From `key` on in steps of kAcross: the first tile with a document of the span, or a number >= end.
uint next_keys(Head h, uint key, uint end, ivec2 span) {
  if (p.has_documents == 0u) return key;
  bool found = false;
  do {
    ivec2 keys = kNothing;
    [[unroll]] for (uint j = 0u; j < 4u; ++j) {
      keys = with_document(keys, document(h, key + 4u * gl_SubgroupInvocationID + j));
    }
    found = overlap(over_lanes_span(keys), span);
    key += found ? 0u : kAcross;
  } while (!found && key < end);
  return key;
}

// The same of rows.
uint next_rows(Head h, uint row, uint end, ivec2 span) {
  if (p.has_documents == 0u) return row;
  bool found = false;
  do {
    ivec2 rows = kNothing;
    [[unroll]] for (uint j = 0u; j < 4u; ++j) {
      rows = with_document(rows, document(h, (row + 4u * gl_SubgroupInvocationID + j) / p.group));
    }
    found = overlap(over_lanes_span(rows), span);
    row += found ? 0u : kAcross;
  } while (!found && row < end);
  return row;
}
