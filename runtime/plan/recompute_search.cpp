#include "runtime/plan/recompute_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace graft {
namespace {

using Dropped = std::vector<char>;

constexpr int kSegmentSizes = 24;
constexpr int kCheapest = 12;
constexpr std::size_t kNeighbours = 12;  // of each kind, on large graphs
constexpr std::size_t kSmall = 32;       // candidates of a graph of which all neighbours are looked at
constexpr std::size_t kMaxChoices = 64;
constexpr std::size_t kMostTried = 3000;
constexpr std::size_t kRelaxTrials = 32;

/// Nothing computed again. What the backward pass does not read counts as dropped: that has no effect until what is
/// made of it is dropped too, and then it is what one wants.
Dropped nothing(const RecomputeEvaluator& evaluate) {
  Dropped dropped(evaluate.graph().candidates().size(), 0);
  for (std::size_t c = 0; c < dropped.size(); ++c) dropped[c] = !evaluate.graph().saved(c);
  return dropped;
}

/// Work that a kept byte saves.
double density(const RecomputeEvaluator& evaluate, std::size_t c) {
  return static_cast<double>(evaluate.work(c)) / static_cast<double>(std::max<std::uint64_t>(evaluate.bytes(c), 1));
}

/// The forward pass in segments: where it is cut, the results that are still to be read stay, and all others go.
class Segments {
 public:
  explicit Segments(RecomputeEvaluator& evaluate) : evaluate_(evaluate) {
    const RecomputeGraph& graph = evaluate.graph();
    const Graph& nodes = graph.graph();
    std::vector<std::uint32_t> last_use(nodes.values().size(), 0);
    const auto& order = graph.joint_order();
    for (std::uint32_t p = 0; p < order.size(); ++p) {
      if (graph.late(order[p])) continue;
      for (const ValueId v : nodes.node(order[p]).inputs) {
        if (v.valid()) last_use[graph.root(v.index)] = p;
      }
      for (const ValueId v : nodes.node(order[p]).outputs) {
        if (graph.root(v.index) == v.index) last_use[v.index] = p;
      }
    }
    for (std::size_t c = 0; c < graph.candidates().size(); ++c) {
      const std::uint32_t v = graph.candidates()[c];
      made_.push_back(graph.place(nodes.values()[v].producer));
      read_.push_back(last_use[v]);
      if (graph.saved(c)) saved_bytes_ += evaluate.bytes(c);
    }
  }

  std::uint64_t saved_bytes() const { return saved_bytes_; }

  /// The cuts that keep the fewest bytes, with at most `limit` saved bytes in a segment; empty where none will do.
  Dropped cut(std::uint64_t limit) const {
    const std::size_t n = made_.size();
    constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();
    std::vector<std::uint64_t> kept(n + 1, kNever);  // by how many candidates lie before the cut
    std::vector<std::size_t> from(n + 1, 0);
    kept[0] = 0;
    for (std::size_t b = 1; b <= n; ++b) {
      std::uint64_t inside = 0;
      std::uint64_t across = 0;
      for (std::size_t a = b; a-- > 0;) {
        const std::uint64_t bytes = evaluate_.bytes(a);
        if (crosses(a, b)) {
          across += bytes;
        } else if (evaluate_.graph().saved(a)) {
          inside += bytes;
        }
        if (inside > limit) break;
        if (kept[a] != kNever && kept[a] + across < kept[b]) {
          kept[b] = kept[a] + across;
          from[b] = a;
        }
      }
    }
    if (kept[n] == kNever) return {};
    Dropped dropped = nothing(evaluate_);
    // The last segment stays: the backward pass begins with it.
    for (std::size_t b = from[n]; b > 0; b = from[b]) {
      for (std::size_t c = from[b]; c < b; ++c) dropped[c] = !crosses(c, b);
    }
    return dropped;
  }

 private:
  /// Whether candidate c is read behind a cut before candidate b.
  bool crosses(std::size_t c, std::size_t b) const { return b < made_.size() && read_[c] >= made_[b]; }

  RecomputeEvaluator& evaluate_;
  std::vector<std::uint32_t> made_;
  std::vector<std::uint32_t> read_;  ///< last by the forward pass
  std::uint64_t saved_bytes_ = 0;
};

class Search {
 public:
  Search(RecomputeEvaluator& evaluate, std::uint64_t work) : evaluate_(evaluate) {
    const std::uint64_t nodes = evaluate.graph().graph().nodes().size() + 1;
    left_ = static_cast<std::size_t>(std::min<std::uint64_t>(kMostTried, work / nodes + 1));
  }

  std::vector<RecomputeChoice> run() {
    const RecomputeChoice none{nothing(evaluate_), evaluate_(nothing(evaluate_))};
    grain_ = none.cost.peak / 1024;
    archive_.push_back({none, 0});
    seed_with_segments();
    seed_with_cheapest();
    descend(none);
    relax_all();
    // One value at a time, as long as there is something new; then two at a time.
    while (left_ > 0 && (expand_one(1) || expand_one(2))) {
    }
    return thinned();
  }

 private:
  struct Entry {
    RecomputeChoice choice;
    int expanded = 0;  ///< by how many values at a time
  };

  void try_out(const Dropped& dropped) {
    if (left_ == 0) return;
    --left_;
    offer({dropped, evaluate_(dropped)});
  }

  /// Keeps a choice that no other beats in both respects.
  void offer(RecomputeChoice choice) {
    for (const Entry& e : archive_) {
      if (e.choice.cost.work <= choice.cost.work && e.choice.cost.peak <= choice.cost.peak + grain_) return;
    }
    std::erase_if(archive_, [&](const Entry& e) {
      return e.choice.cost.work >= choice.cost.work && e.choice.cost.peak >= choice.cost.peak;
    });
    const auto at = std::find_if(archive_.begin(), archive_.end(),
                                 [&](const Entry& e) { return e.choice.cost.peak < choice.cost.peak; });
    archive_.insert(at, {std::move(choice), 0});
  }

  void seed_with_segments() {
    const Segments segments(evaluate_);
    const double total = static_cast<double>(std::max<std::uint64_t>(segments.saved_bytes(), 1));
    for (int i = 0; i < kSegmentSizes; ++i) {
      const Dropped dropped = segments.cut(static_cast<std::uint64_t>(total * std::pow(0.8, i)));
      if (dropped.empty()) break;
      try_out(dropped);
    }
  }

  void seed_with_cheapest() {
    const std::size_t n = evaluate_.graph().candidates().size();
    std::vector<std::size_t> by_density(n);
    std::iota(by_density.begin(), by_density.end(), 0u);
    std::stable_sort(by_density.begin(), by_density.end(),
                     [&](std::size_t a, std::size_t b) { return density(evaluate_, a) < density(evaluate_, b); });
    Dropped dropped = nothing(evaluate_);
    for (std::size_t i = 0; i < n; ++i) {
      dropped[by_density[i]] = 1;
      if ((i + 1) * kCheapest / n != i * kCheapest / n) try_out(dropped);
    }
  }

  /// Drops the value that takes most off the peak and what is nearly as high, for its work; and again, while any does.
  void descend(RecomputeChoice choice) {
    const std::size_t floor = left_ * 2 / 3;
    while (left_ > floor) {
      const std::uint64_t level = choice.cost.peak / 8 * 7;
      const std::uint64_t above = evaluate_(choice.dropped, level).above;
      RecomputeChoice best;
      double best_gain = 0;
      for (const std::size_t c : alive_at_peak(choice)) {
        Dropped next = choice.dropped;
        next[c] = 1;
        const RecomputeCost cost = evaluate_(next, level);
        left_ -= left_ > 0;
        offer({next, cost});
        const double more = static_cast<double>(cost.work) - static_cast<double>(choice.cost.work);
        const double gain = (static_cast<double>(above) - static_cast<double>(cost.above)) / std::max(more, 1.0);
        if (gain <= best_gain) continue;
        best_gain = gain;
        best = {std::move(next), cost};
      }
      if (best_gain <= 0) return;
      choice = std::move(best);
    }
  }

  /// On large graphs this is where most of the work goes; half of it at most.
  void relax_all() {
    const std::vector<Entry> seeds = archive_;
    const std::size_t floor = left_ / 2;
    for (const Entry& seed : seeds) {
      if (left_ <= floor) return;
      std::size_t tried = 0;
      offer(relax(evaluate_, seed.choice, seed.choice.cost.peak, &tried));
      left_ -= std::min(left_, tried);
    }
  }

  /// Looks around the choice of least peak that has not been expanded so far; false where there is none.
  bool expand_one(int values) {
    for (std::size_t i = archive_.size(); i-- > 0;) {
      if (archive_[i].expanded >= values) continue;
      archive_[i].expanded = values;
      const RecomputeChoice choice = archive_[i].choice;  // by value: the archive changes
      const std::vector<std::size_t> around = neighbours(choice);
      for (std::size_t a = 0; a < around.size(); ++a) {
        for (std::size_t b = values == 1 ? a : a + 1; b < (values == 1 ? a + 1 : around.size()); ++b) {
          Dropped next = choice.dropped;
          for (const std::size_t c : {around[a], around[b]}) next[c] = choice.dropped[c] == 0;
          try_out(next);
        }
      }
      return true;
    }
    return false;
  }

  std::vector<std::size_t> neighbours(const RecomputeChoice& choice) {
    std::vector<std::size_t> all(choice.dropped.size());
    std::iota(all.begin(), all.end(), 0u);
    if (all.size() <= kSmall) return all;
    std::vector<std::size_t> around = alive_at_peak(choice);
    std::erase_if(all, [&](std::size_t c) { return choice.dropped[c] == 0; });
    std::stable_sort(all.begin(), all.end(),
                     [&](std::size_t a, std::size_t b) { return evaluate_.work(a) > evaluate_.work(b); });
    all.resize(std::min(all.size(), kNeighbours));
    around.insert(around.end(), all.begin(), all.end());
    return around;
  }

  /// Candidates kept and alive at the choice's peak, the largest first.
  std::vector<std::size_t> alive_at_peak(const RecomputeChoice& choice) {
    evaluate_(choice.dropped);
    std::vector<std::size_t> kept;
    for (std::size_t c = 0; c < choice.dropped.size(); ++c) {
      if (choice.dropped[c] == 0 && evaluate_.alive_at_peak()[c] != 0) kept.push_back(c);
    }
    std::stable_sort(kept.begin(), kept.end(),
                     [&](std::size_t a, std::size_t b) { return evaluate_.bytes(a) > evaluate_.bytes(b); });
    kept.resize(std::min(kept.size(), kNeighbours));
    return kept;
  }

  /// No more than kMaxChoices, the closest to a neighbour left out first; both ends stay.
  std::vector<RecomputeChoice> thinned() {
    while (archive_.size() > kMaxChoices) {
      std::size_t least = 1;
      const auto gap = [&](std::size_t i) {
        return archive_[i - 1].choice.cost.peak - archive_[i + 1].choice.cost.peak;
      };
      for (std::size_t i = 2; i + 1 < archive_.size(); ++i) {
        if (gap(i) < gap(least)) least = i;
      }
      archive_.erase(archive_.begin() + static_cast<std::ptrdiff_t>(least));
    }
    std::vector<RecomputeChoice> choices;
    for (Entry& e : archive_) choices.push_back(std::move(e.choice));
    return choices;
  }

  RecomputeEvaluator& evaluate_;
  std::size_t left_;  ///< choices that may still be tried
  std::uint64_t grain_ = 0;
  std::vector<Entry> archive_;  ///< by falling peak, so by rising work
};

}  // namespace

std::vector<RecomputeChoice> find_recompute_choices(RecomputeEvaluator& evaluate, std::uint64_t work) {
  return Search(evaluate, work).run();
}

RecomputeChoice relax(RecomputeEvaluator& evaluate, RecomputeChoice choice, std::uint64_t peak, std::size_t* tried) {
  std::vector<std::size_t> gone;
  for (std::size_t c = 0; c < choice.dropped.size(); ++c) {
    if (choice.dropped[c] != 0) gone.push_back(c);
  }
  std::stable_sort(gone.begin(), gone.end(),
                   [&](std::size_t a, std::size_t b) { return density(evaluate, a) > density(evaluate, b); });
  // As many as possible at once, then halves of what is left: few trials where little can be kept.
  std::size_t chunk = gone.size();
  std::size_t trials = 0;
  for (std::size_t at = 0; at < gone.size() && trials < kRelaxTrials;) {
    const std::size_t end = std::min(gone.size(), at + chunk);
    std::vector<char> kept = choice.dropped;
    for (std::size_t i = at; i < end; ++i) kept[gone[i]] = 0;
    const RecomputeCost cost = evaluate(kept);
    ++trials;
    if (cost.peak <= peak && cost.work <= choice.cost.work) {
      choice = {std::move(kept), cost};
      at = end;
    } else if (chunk > 1) {
      chunk = (chunk + 1) / 2;
    } else {
      ++at;
    }
  }
  if (tried != nullptr) *tried = trials;
  return choice;
}

}  // namespace graft
