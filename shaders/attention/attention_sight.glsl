// The buffer of binding SIGHT: texts of tokens in packed sequences, or in the variants with -DMASK what is added to scores. After
// kMasked and attention_heads.glsl.
#ifdef MASK
layout(binding = SIGHT) readonly buffer Mask { float mask[]; };

int sequence(Head h, uint token) { return 0; }

// A score with the mask's number for it; kMasked where that is as good as minus infinity.
float masked(Head h, uint row, uint key, float score) {
  const uint real = min(row, row_count() - 1u);
  const uint head = h.kv * p.group + real % p.group;
  const float s = score + mask[h.batch * p.mask_batch + head * p.mask_head + real / p.group * p.mask_query +
                               min(key, p.keys - 1u)];
  return s < kMasked ? kMasked : s;
}
#else
layout(binding = SIGHT) readonly buffer Sequences { int sequences[]; };

int sequence(Head h, uint token) {
  return p.has_sequences != 0u ? sequences[h.batch * p.queries + min(token, p.queries - 1u)] : 0;
}

float masked(Head h, uint row, uint key, float score) { return score; }
#endif
