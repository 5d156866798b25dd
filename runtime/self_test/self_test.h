// The start-up self-test: kernels are run against known answers before a device is trusted with them.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>

#include "runtime/kernels/kernel_proof.h"
#include "runtime/self_test/device_profile.h"
#include "runtime/self_test/probe_plans.h"

namespace graft {

/// Remembers verdicts in a profile. A probe runs forward and backward. Where several untested kernels of a probe that
/// failed (or killed the process) may be to blame, those are blamed that graft can do without; the rest is tested again
/// with what takes their place.
class SelfTest final : public KernelProof {
 public:
  /// `profile` must outlive it.
  SelfTest(DeviceProfile& profile, const LogSink& log) : profile_(profile), log_(log) {}

  Result<bool> check(gpu::Device& device, std::span<const Plan* const> plans) override;

  /// Tests every kernel and tile that the device's rules may choose, known or not.
  Status check_all(gpu::Device& device);

 private:
  Status check_all_of(gpu::Device& device, const BuiltProbe& built);
  Status run_probe(gpu::Device& device, const OpProbe& probe, DType elements, bool others, std::set<ProofKey>& wanted);
  /// Runs a probe as it is and with every tile of `wanted` that it can take, or (`others`) with the kernels that its
  /// families offer beside those chosen; takes what was tested out of `wanted`.
  Status run_built(gpu::Device& device, const BuiltProbe& built, bool others, std::set<ProofKey>& wanted);
  /// As planned where the device follows `forced`; where that holds nothing that is wanted, nothing is run.
  Status run_planned(gpu::Device& device, const BuiltProbe& built, const gpu::Advice& forced,
                     std::set<ProofKey>& wanted);
  Status prove_wide(gpu::Device& device, const BuiltProbe& built);
  Status run_advised(gpu::Device& device, const BuiltProbe& built, std::set<ProofKey>& wanted);
  Status run_up_to_last_epilogue(gpu::Device& device, const BuiltProbe& built, std::set<ProofKey> fresh);
  Status prove(gpu::Device& device, const BuiltProbe& built, const std::set<ProofKey>& keys,
               std::set<ProofKey>& wanted);
  std::set<ProofKey> unknown(const std::set<ProofKey>& keys) const;
  std::set<ProofKey> to_blame(const gpu::Device& device, const BuiltProbe& built, const std::set<ProofKey>& suspects);

  DeviceProfile& profile_;
  LogSink log_;
  bool failed_ = false;  ///< a kernel, and no check() has said so yet
};

/// A device together with what its cache folder knows of it: the proof that programs are given.
/// Threads: the device's.
class RememberedDevice final : public KernelProof {
 public:
  /// Reads what `folder` holds for the device and lets the device follow it: its advice, its pipeline cache. Nothing in
  /// the folder is an error. An empty folder: nothing is read or written, and the tests hold for this object's life.
  static Result<std::unique_ptr<RememberedDevice>> open(os::FileSystem& files, const std::string& folder,
                                                        gpu::Device& device, const LogSink& log, bool self_test);

  Result<bool> check(gpu::Device& device, std::span<const Plan* const> plans) override {
    return self_test_ ? test_.check(device, plans) : Result<bool>(false);
  }
  DeviceProfile& profile() { return *profile_; }
  SelfTest& test() { return test_; }

 private:
  RememberedDevice(std::unique_ptr<DeviceProfile> profile, const LogSink& log, bool self_test)
      : profile_(std::move(profile)), test_(*profile_, log), self_test_(self_test) {}

  std::unique_ptr<DeviceProfile> profile_;
  SelfTest test_;
  bool self_test_;
};

}  // namespace graft
