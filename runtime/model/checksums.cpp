// Whether the weights are what their file says: compared in threads, a block at a time.
#include <algorithm>
#include <thread>

#include "platform/os/threads.h"
#include "runtime/model/format.h"
#include "runtime/model/model.h"

namespace graft {

using namespace model_format;

/// Compares weights with what their file states of them.
class WeightChecker {
 public:
  WeightChecker(const Model& model, bool everything) {
    for (const auto& [id, weight] : model.weights_) {
      if (!weight.stated || (weight.right.set && !everything)) continue;
      weights_.push_back(&weight);
      const std::uint64_t bytes = weight.bytes.size();
      const auto& blocks = weight.stated->blocks;
      for (std::size_t i = 0; i < blocks.size(); ++i) {
        const std::uint64_t begin = i * kHashedBlock;
        jobs_.push_back({id, &weight, begin, std::min(begin + kHashedBlock, bytes), &blocks[i], true});
      }
      // Blocks say the same as the checksum, and are many threads' work.
      if (blocks.empty() || everything) jobs_.push_back({id, &weight, 0, bytes, nullptr, true});
    }
  }

  /// Neighbouring blocks are one damage, and a whole weight is not named again where its blocks are.
  std::vector<WeightDamage> run() {
    run_jobs();
    for (const Model::Weight* weight : weights_) weight->right.set = true;
    std::vector<WeightDamage> out;
    for (const Job& job : jobs_) {
      if (job.right) continue;
      job.weight->right.set = false;
      const std::uint64_t offset = job.weight->stated->offset;
      const bool follows = !out.empty() && out.back().value == job.id;
      if (follows && job.block == nullptr) continue;
      if (follows && out.back().end == offset + job.begin) {
        out.back().end = offset + job.end;
      } else {
        out.push_back({job.id, offset + job.begin, offset + job.end});
      }
    }
    return out;
  }

 private:
  struct Job {
    ValueId id;
    const Model::Weight* weight;
    std::uint64_t begin;  // in the weight
    std::uint64_t end;
    const std::uint64_t* block;  // null: the whole weight's checksum
    bool right;
  };

  static bool is_right(const Job& job) {
    const auto bytes =
        job.weight->bytes.subspan(static_cast<std::size_t>(job.begin), static_cast<std::size_t>(job.end - job.begin));
    return job.block != nullptr ? hash64(bytes) == *job.block : hash128(bytes) == job.weight->stated->checksum;
  }

  void run_jobs() {
    constexpr std::uint64_t kPerThread = 8 << 20;  // less is read in the time that a thread takes to start
    constexpr std::uint64_t kMostThreads = 8;      // memory is not read faster by more
    std::uint64_t bytes = 0;
    for (const Job& job : jobs_) bytes += job.end - job.begin;
    const std::uint64_t cores = std::clamp<std::uint64_t>(std::thread::hardware_concurrency(), 1, kMostThreads);
    std::atomic<std::size_t> next{0};
    const auto work = [&](std::size_t) {
      for (std::size_t i = next++; i < jobs_.size(); i = next++) jobs_[i].right = is_right(jobs_[i]);
    };
    os::run_in_threads(static_cast<std::size_t>(std::clamp<std::uint64_t>(bytes / kPerThread, 1, cores)), work);
  }

  std::vector<Job> jobs_;
  std::vector<const Model::Weight*> weights_;
};

Status Model::verify_weights() const {
  const std::vector<WeightDamage> all = WeightChecker(*this, false).run();
  if (all.empty()) return ok_status();
  const WeightDamage& first = all.front();
  return corrupt("The weight \"", graph.value(first.value).name, "\" in the model file \"", source_,
                 "\" is damaged: bytes ", first.begin, " to ", first.end - 1, " of the file are not what its checksum ",
                 "says", all.size() > 1 ? cat(", and ", all.size() - 1, " more ranges") : "", ".");
}

Status Model::check_before_use() const { return unchecked_ ? ok_status() : verify_weights(); }

std::vector<WeightDamage> Model::find_damage() const { return WeightChecker(*this, true).run(); }

Hash128 weights_hash(const Model& model) {
  std::string all;
  for (const auto& [id, weight] : model.weights_) {
    const Value& value = model.graph.value(id);
    const Hash128 hash = weight.stated ? weight.stated->checksum : hash128(weight.bytes);
    all += cat(value.name, ' ', dtype_name(value.dtype), value.shape.text(), ' ', hash_text(hash), '\n');
  }
  return hash128(std::as_bytes(std::span(all)));
}

}  // namespace graft
