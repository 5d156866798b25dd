// What graft.hpp says of data sets. Included by graft.hpp.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "graft/base.hpp"
#include "graft/language.h"
#include "graft/media.h"
#include "graft/options.hpp"

namespace graft {
inline namespace v0 {

/// As graft_field.
struct Field {
  std::string name;
  graft_dtype dtype = GRAFT_F32;
  std::vector<std::int64_t> dims = {};  ///< of one sample
  bool is_label = false;
  bool is_weight = false;                 ///< how much a sample counts for
  std::vector<std::string> classes = {};  ///< as graft_data_class; read alone
};

/// As graft_data_options; the model is that of Context::open_data().
struct DataOptions {
  bool evaluation = false;                            ///< samples as they are, and labels of the model's classes alone
  std::int64_t length = 0;                            ///< of samples of text, in tokens; 0: 128
  bool sequence_starts = false;                       ///< samples of text say where their texts begin
  const graft_media* media = nullptr;                 ///< reads pictures and sounds
  std::uint64_t first = 0;                            ///< samples [first, first + count) alone
  std::uint64_t count = 0;                            ///< 0: to the end
  graft_preference preference = GRAFT_NO_PREFERENCE;  ///< samples hold two texts of that length, or more
  graft_pooling pooling = GRAFT_POOLING_DEFAULT;      ///< GRAFT_PREFERENCE_GROUPS
  graft_on_long on_long = GRAFT_ON_LONG_BY_KIND;      ///< what becomes of texts longer than a sample
  const graft_tokenizer* tokenizer = nullptr;         ///< Tokenizer::get() of one in place of the model's
  std::uint64_t show = 0;                             ///< first samples of text for graft_data_shown()
};

/// Batches of a data set, read ahead.
class Loader {
 public:
  /// The next batch, valid until the next call; samples == 0: the epochs are over.
  Result<graft_batch> next() {
    auto batch = detail::sized<graft_batch>();
    Status got = detail::to_status(graft_loader_next(handle_.get(), &batch), context_);
    if (!got.ok()) return got;
    return batch;
  }
  /// For what only the C ABI has.
  graft_loader* get() const { return handle_.get(); }

 private:
  friend class DataSet;
  Loader(graft_loader* handle, graft_context* context) : handle_(handle), context_(context) {}
  detail::Handle<graft_loader, graft_loader_destroy> handle_;
  graft_context* context_;
};

/// What became of the records of a set of text; empty texts of other sets.
struct DataSummary {
  bool lost = false;  ///< something is cut, or left out
  std::string text;   ///< sentences, a line each
  std::string json;
};

/// As graft_reference_options.
struct ReferenceOptions {
  std::uint32_t batch = 8;
  graft_precision precision = GRAFT_PRECISION_F32;
  std::vector<Binding> bindings = {};  ///< but for the batch and "seq"
};

/// Samples; see graft/data.h. Context::open_data() and its neighbours make it.
class DataSet {
 public:
  /// Fills the places of one sample; 1: done, 0: the data ends before it, below 0: it failed.
  using Read = std::function<int(std::uint64_t index, void* const* out)>;

  std::uint64_t samples() const { return graft_data_samples(handle_.get()); }  ///< 0 where nobody knows
  /// What one sample consists of, in order.
  std::vector<Field> fields() const {
    std::vector<Field> all;
    for (std::size_t i = 0; i < graft_data_field_count(handle_.get()); ++i) {
      graft_field raw{};
      if (graft_data_field(handle_.get(), i, &raw) != GRAFT_OK) continue;
      all.push_back({raw.name, raw.dtype, {raw.dims, raw.dims + raw.rank}, raw.is_label == 1, raw.is_label == 2, {}});
      for (std::size_t c = 0; const char* name = graft_data_class(handle_.get(), i, c); ++c) {
        all.back().classes.emplace_back(name);
      }
    }
    return all;
  }
  /// Batches of this set, which must outlive the loader.
  Result<Loader> loader(const LoaderOptions& options = {}) {
    const detail::RawLoaderOptions raw(options);
    graft_loader* loader = nullptr;
    const graft_status code = graft_loader_create(handle_.get(), raw.get(), &loader);
    return detail::made(code, context_, Loader(loader, context_));
  }
  /// What a model without adapters (Model::get()) makes of the texts of preferences becomes part of the samples.
  Status add_reference(graft_model* model, std::uint32_t batch = 0) {
    return detail::to_status(graft_data_add_reference(handle_.get(), model, batch), context_);
  }
  /// The same, by options.
  Status add_reference(graft_model* model, const ReferenceOptions& options) {
    const auto bindings = detail::raw_bindings(options.bindings);
    auto raw = detail::sized<graft_reference_options>();
    raw.batch = options.batch;
    raw.precision = options.precision;
    raw.bindings = bindings.data();
    raw.binding_count = bindings.size();
    return detail::to_status(graft_data_add_reference_with(handle_.get(), model, &raw), context_);
  }
  /// Samples [first, first + count) alone from now on.
  Status narrow(std::uint64_t first, std::uint64_t count) {
    return detail::to_status(graft_data_narrow(handle_.get(), first, count), context_);
  }
  /// Samples `rows` in this order, as a set of its own, for a client or a fold: of all that read one set, one has a
  /// loader at a time.
  Result<DataSet> select(const std::vector<std::uint64_t>& rows) {
    graft_data_set* part = nullptr;
    const graft_status code = graft_data_select(handle_.get(), rows.data(), rows.size(), &part);
    return detail::made(code, context_, DataSet(part, context_, read_));
  }
  /// The rows of each of so many parts, to select: "iid", "dirichlet=ALPHA", "shards=N".
  Result<std::vector<std::vector<std::uint64_t>>> split(const std::string& way, std::uint64_t parts,
                                                        std::uint64_t seed) {
    std::vector<std::uint64_t> rows(samples()), ends(parts);
    Status made = detail::to_status(graft_data_split(handle_.get(), way.c_str(), parts, seed, rows.data(), ends.data()),
                                    context_);
    if (!made.ok()) return made;
    std::vector<std::vector<std::uint64_t>> all;
    std::uint64_t first = 0;
    for (const std::uint64_t end : ends) {
      all.emplace_back(rows.begin() + static_cast<std::ptrdiff_t>(first),
                       rows.begin() + static_cast<std::ptrdiff_t>(end));
      first = end;
    }
    return all;
  }
  /// Of text: what was cut or left out.
  Result<DataSummary> summary() const {
    auto raw = detail::sized<graft_data_summary>();
    Status got = detail::to_status(graft_data_describe(handle_.get(), &raw), context_);
    if (!got.ok()) return got;
    return DataSummary{raw.lost != 0, raw.text, raw.json};
  }
  /// For what only the C ABI has.
  graft_data_set* get() const { return handle_.get(); }

 private:
  friend class Context;
  /// A function of the app's, as graft calls it.
  struct ReadCall {
    ReadCall(graft_context* of, Read function) : context(of), read(std::move(function)) {}
    graft_context* context;
    Read read;
  };
  DataSet(graft_data_set* handle, graft_context* context, std::shared_ptr<ReadCall> read)
      : read_(std::move(read)), handle_(handle), context_(context) {}
  static std::vector<graft_field> raw_fields(const std::vector<Field>& fields) {
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
  std::shared_ptr<ReadCall> read_;  // what the set calls; before it
  detail::Handle<graft_data_set, graft_data_destroy> handle_;
  graft_context* context_;
};

}  // namespace v0
}  // namespace graft
