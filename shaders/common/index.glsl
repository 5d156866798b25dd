// Flat indices over dispatches that were spread over x, y and z (Emitter::spread).
// Declare layout(local_size_x = ...) before including this: where it is not yet declared, glslang refuses
// gl_WorkGroupSize, or (older ones) takes it for 1 and says nothing.
#ifndef GRAFT_INDEX_GLSL
#define GRAFT_INDEX_GLSL

uint flat_workgroup() {
  return gl_WorkGroupID.x + gl_NumWorkGroups.x * (gl_WorkGroupID.y + gl_NumWorkGroups.y * gl_WorkGroupID.z);
}

uint flat_invocation() {
  return flat_workgroup() * (gl_WorkGroupSize.x * gl_WorkGroupSize.y * gl_WorkGroupSize.z) + gl_LocalInvocationIndex;
}

#endif
