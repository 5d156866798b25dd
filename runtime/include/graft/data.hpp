// Data sets. Included by graft.hpp.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>

#include "graft/data_set_calls.hpp"
#include "graft/loader.hpp"

namespace graft {
inline namespace v0 {

/// One tensor of a sample.
struct Field {
  std::string name;
  graft_dtype dtype = GRAFT_F32;
  std::vector<std::int64_t> dims = {};  ///< of one sample
  bool is_label = false;
  bool is_weight = false;                 ///< how much a sample counts for
  std::vector<std::string> classes = {};  ///< as graft_data_class; read alone
};

namespace detail {

/// A function that makes samples, as graft calls it; it outlives the set.
struct ReadCall {
  graft_context* context;
  std::function<int(std::uint64_t index, void* const* out)> read;
};
struct ReadsSamples {
  std::shared_ptr<ReadCall> read_;
};

inline std::vector<graft_field> raw_fields(const std::vector<Field>& fields) {
  std::vector<graft_field> raw;
  for (const Field& field : fields) {
    graft_field& out = raw.emplace_back();
    out.name = field.name.c_str();
    out.dtype = field.dtype;
    out.rank = static_cast<std::uint32_t>(field.dims.size());
    std::copy_n(field.dims.begin(), std::min<std::size_t>(field.dims.size(), GRAFT_MAX_RANK), out.dims);
    out.is_label = field.is_weight ? 2 : field.is_label ? 1 : 0;
  }
  return raw;
}

}  // namespace detail

/// Samples; see graft/data.h. Context::open_data() and its like make it.
class DataSet : private detail::ReadsSamples, public detail::DataSetCalls {
 public:
  /// Fills the places of one sample; 1: done, 0: the data ends before it, below 0: it failed.
  using Read = std::function<int(std::uint64_t index, void* const* out)>;

  DataSet(graft_data_set* handle, graft_context* context, std::shared_ptr<detail::ReadCall> read = nullptr)
      : ReadsSamples{std::move(read)}, DataSetCalls(handle, context) {}
  /// What one sample consists of, in order.
  std::vector<Field> fields() const {
    std::vector<Field> all;
    for (graft_field raw{}; graft_data_field(get(), all.size(), &raw) == GRAFT_OK;) {
      const bool is_label = raw.is_label == 1, is_weight = raw.is_label == 2;
      all.push_back({raw.name, raw.dtype, {raw.dims, raw.dims + raw.rank}, is_label, is_weight, classes(all.size())});
    }
    return all;
  }
  /// Batches of this set, which must outlive the loader.
  Result<Loader> loader(const LoaderOptions& options = {}) { return Loader::create(*this, options); }
  /// Samples `rows` in this order, as a set of its own, for a client or a fold: of all that read one set, one has a
  /// loader at a time.
  Result<DataSet> select(const std::vector<std::uint64_t>& rows) {
    graft_data_set* part = nullptr;
    const graft_status code = graft_data_select(get(), rows.data(), rows.size(), &part);
    return detail::made(code, context(), DataSet(part, context(), read_));
  }
  /// The rows of each of so many parts, to select: "iid", "dirichlet=ALPHA", "shards=N"; see graft_data_split.
  Result<std::vector<std::vector<std::uint64_t>>> split(const std::string& way, std::uint64_t parts,
                                                        std::uint64_t seed) {
    std::vector<std::uint64_t> rows(samples()), ends(parts);
    const Status done = status(graft_data_split(get(), way.c_str(), parts, seed, rows.data(), ends.data()));
    if (!done.ok()) return done;
    std::vector<std::vector<std::uint64_t>> all;
    for (auto first = rows.begin(); const std::uint64_t end : ends) {
      const auto last = rows.begin() + static_cast<std::ptrdiff_t>(end);
      all.emplace_back(first, last);
      first = last;
    }
    return all;
  }
};

}  // namespace v0
}  // namespace graft
