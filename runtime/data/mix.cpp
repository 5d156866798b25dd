#include "runtime/data/mix.h"

#include <utility>

namespace graft::data {
namespace {

class MixedSource final : public Source {
 public:
  MixedSource(Source& source, std::unique_ptr<Source> mixed, double share, std::vector<std::size_t> places)
      : source_(source), mixed_(std::move(mixed)), first_(*source.size()), share_(share), places_(std::move(places)) {
    const auto& fields = mixed_->fields();
    other_.resize(fields.size());
    for (std::size_t f = 0; f < fields.size(); ++f) other_[f].resize(fields[f].bytes());
    pointers_.resize(fields.size());
  }
  const std::vector<Field>& fields() const override { return source_.fields(); }
  std::optional<std::uint64_t> size() const override { return first_ + *mixed_->size(); }
  std::optional<Mixture> mixture() const override { return Mixture{first_, share_}; }
  bool draws_by_number() const override { return source_.draws_by_number() || mixed_->draws_by_number(); }
  void start_epoch(std::uint64_t seed, std::uint64_t epoch) override {
    source_.start_epoch(seed, epoch);
    mixed_->start_epoch(seed, epoch);
  }
  Result<std::uint64_t> key(std::uint64_t position) override {
    return position < first_ ? source_.key(position) : mixed_->key(position - first_);
  }
  Result<bool> read(std::uint64_t& position, SampleOut out) override {
    if (position < first_) {
      std::uint64_t at = position;
      GRAFT_TRY_ASSIGN(const bool more, source_.read(at, out));
      ++position;
      return more;
    }
    // Fields that the other set lacks have no place in `out`.
    for (std::size_t f = 0; f < pointers_.size(); ++f) pointers_[f] = other_[f].data();
    for (std::size_t f = 0; f < places_.size(); ++f) pointers_[places_[f]] = out[f];
    std::uint64_t at = position - first_;
    GRAFT_TRY_ASSIGN(const bool more, mixed_->read(at, pointers_));
    if (more) ++position;
    return more;
  }

 private:
  Source& source_;
  std::unique_ptr<Source> mixed_;
  std::uint64_t first_;
  double share_;
  std::vector<std::size_t> places_;            // of each field, the other source's field of its name
  std::vector<std::vector<std::byte>> other_;  // why reads are not parallel
  std::vector<std::byte*> pointers_;
};

std::string told(const Field& field) { return cat(field.type_name(), " of the shape ", field.shape.text()); }

}  // namespace

Result<std::unique_ptr<Source>> mix_in(Source& source, std::unique_ptr<Source> mixed, double share) {
  if (!mixed || !source.size() || !mixed->size() || *mixed->size() == 0 || *source.size() == 0) {
    return invalid("A mix needs two data sets of known size, neither of which is empty.");
  }
  constexpr double kMostShare = 0.95;
  if (!(share > 0 && share <= kMostShare)) {
    return invalid("The share of samples to mix in is ", share, "; it must be above 0 and at most ", kMostShare, ".");
  }
  std::vector<std::size_t> places;
  for (const Field& field : source.fields()) {
    std::size_t found = 0;
    while (found < mixed->fields().size() && mixed->fields()[found].name != field.name) ++found;
    if (found == mixed->fields().size()) {
      return invalid("The samples to mix in have no field \"", field.name, "\", which the data set has.");
    }
    const Field& other = mixed->fields()[found];
    if (other.dtype != field.dtype || other.packed != field.packed || !(other.shape == field.shape) ||
        other.role != field.role) {
      return invalid("The field \"", field.name, "\" is ", told(other), " in the samples to mix in, but ", told(field),
                     " in the data set.");
    }
    places.push_back(found);
  }
  return std::unique_ptr<Source>(new MixedSource(source, std::move(mixed), share, std::move(places)));
}

}  // namespace graft::data
