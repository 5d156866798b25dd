// By which figures of a device a plan's time is estimated: those that its maker publishes, or what graft measured on
// it.
#pragma once

#include <string>
#include <vector>

#include "runtime/plan/plan_time.h"

namespace graft {

/// What a device reaches when nothing but one thing is asked of it; 0 where it cannot.
struct DeviceFigures {
  double f32_flops = 0;  ///< per second, a multiply and an add counted as two
  double f16_flops = 0;
  double dot8_ops = 0;        ///< of dot products of four 8-bit integers: 8 each
  double copy_bytes = 0;      ///< per second, read plus written, by a kernel
  double read_bytes = 0;      ///< per second, by a kernel
  double transfer_bytes = 0;  ///< per second, read plus written, by a copy command
  double gemm_flops = 0;      ///< per second, of graft's own product of 768^3
  double dispatch_seconds = 0;
  double barrier_seconds = 0;     ///< what a barrier between two dispatches adds
  double submit_seconds = 0;      ///< an empty submission, and the wait for it
  double round_trip_seconds = 0;  ///< a word to the device, a dispatch, a word back
};

/// A speed, and whose it is.
struct KnownSpeed {
  std::string device;
  gpu::Speed speed;
  bool measured = false;  ///< else by public figures
};

/// How wrong an estimate may be, as far as it is known: sentences.
std::string error_text(const KnownSpeed& known);

/// Of what was measured on the target's device.
gpu::Speed measured_speed(const DeviceFigures& figures, const gpu::Target& target);

/// `given`: what graft bench device --json prints, or a name of gpu::known_figures(), or "llvmpipe"; empty: what is
/// known of the target, by its name. invalid_argument where nothing is known of the target, or a figure that an
/// estimate needs is missing or no number above 0.
Result<KnownSpeed> read_speed(const std::string& given, const gpu::Target& target);
/// Whether `given` is a name of figures, and no text of them.
bool is_known_speed(const std::string& given);

/// Of a step: its plan so many times, and once what updates the parameters after that.
struct ModelTime {
  TimeEstimate all;
  struct Node {
    std::string name;
    std::string op;
    TimeEstimate time;
  };
  std::vector<Node> nodes;  ///< the longest first

  void add(const Plan& plan, const gpu::Target& target, const gpu::Speed& speed, double times);
};

}  // namespace graft
