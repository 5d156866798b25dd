// Where the rows and keys of a head are, and which of them can see one another; for all kernels of attention.
#ifndef GRAFT_ATTENTION_HEADS_GLSL
#define GRAFT_ATTENTION_HEADS_GLSL

struct Head {
  uint batch;
  uint kv;
};

uint row_count() { return p.queries * p.group; }
uint row_statistic(Head h, uint row) {
  return ((h.batch * p.queries + row / p.group) * p.kv_heads + h.kv) * p.group + row % p.group;
}
uint row_base(Head h, uint row) { return row_statistic(h, row) * p.dim; }
uint key_base(Head h, uint key) { return ((h.batch * p.keys + key) * p.kv_heads + h.kv) * p.dim; }

// Keys [x, y) that some of `count` rows from `first` on sees, by their places alone.
uvec2 keys_of_rows(uint first, uint count, int offset) {
  const int from = int(first / p.group) + offset;
  const int last = int((min(first + count, row_count()) - 1u) / p.group) + offset;
  int begin = 0;
  int end = int(p.keys);
  if (p.window != 0) begin = max(begin, from - p.window + 1);
  if (p.causal != 0u) end = min(end, last + 1);
  if (p.window != 0) end = min(end, last + p.window);
  return end <= begin ? uvec2(0u) : uvec2(uint(begin), uint(end));
}

// Rows [x, y) that see some of `count` keys from `first` on, by their places alone.
uvec2 rows_of_keys(uint first, uint count, int offset) {
  const int from = int(first) - offset;
  const int last = int(min(first + count, p.keys)) - 1 - offset;
  int begin = 0;
  int end = int(p.queries);
  if (p.causal != 0u) begin = max(begin, from);
  if (p.window != 0) begin = max(begin, from - p.window + 1);
  if (p.window != 0) end = min(end, last + p.window);
  return end <= begin ? uvec2(0u) : uvec2(uint(begin), uint(end)) * p.group;
}

#endif
