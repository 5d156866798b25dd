// Where query 0 stands, in gradients: their buffer of binding SIGHT is the step state's where that counts.
#ifdef MASK
int first_place() { return p.offset; }
#else
layout(binding = SIGHT) readonly buffer State { StepState state; };
int first_place() { return p.from_step != 0u ? int(state.position) : p.offset; }
#endif
