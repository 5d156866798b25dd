// A workgroup of kInvocations in kClusters clusters, which share nothing: each is kLanes neighbouring lanes of a
// subgroup, whose size is a multiple of that, or larger than the workgroup: then the one cluster is its first lanes.
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
const uint kLanes = kInvocations / kClusters;

uint own_cluster() {
  return kClusters > 1 ? (gl_SubgroupID * gl_SubgroupSize + gl_SubgroupInvocationID) / kLanes : 0;
}
uint own_lane() { return gl_SubgroupInvocationID % kLanes; }

// What lane i of this lane's cluster has. The first is 0, a constant, where there is one cluster.
#define HANDED(x, i) subgroupShuffle(x, (gl_SubgroupInvocationID & (kInvocations - kLanes)) + (i))

// What the lane has whose number differs in one bit.
#define OTHER(x, bit) subgroupShuffle(x, gl_SubgroupInvocationID ^ (bit))
