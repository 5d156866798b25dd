// What a lane that owns kLaneRows x kColumns sums loads and stores at once; after these two and kLanes.
// Four contiguous elements are one load: 1 along k, 2 along the rows of A (columns of B), 0 neither.
#ifdef GEMM_VECTORS
layout(constant_id = 3) const uint kVectorA = 0;
layout(constant_id = 5) const uint kVectorB = 0;
#else
const uint kVectorA = 0;
const uint kVectorB = 0;
#endif
layout(local_size_x_id = 0, local_size_y = 1, local_size_z = 1) in;
const uint kAlongK = 1;
const uint kAcross = 2;
const uint kQuadRows = (kLaneRows + 3) / 4;
const uint kQuadColumns = (kColumns + 3) / 4;
const bool kAcrossA = kVectorA == kAcross;
const bool kAcrossB = kVectorB == kAcross;
// 4 or more columns. Written so because a logical "and" of specialization constants is more than some drivers compile.
const bool kRunsOfFour = kVectorB * (kColumns / 4) != 0;
layout(constant_id = 7) const bool kStoreFours = false;  // such runs, where n is a multiple of four
layout(constant_id = 8) const uint kStoreRows = 1;       // stored at a time: a divisor of kLaneRows
