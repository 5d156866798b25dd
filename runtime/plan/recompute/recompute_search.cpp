#include "runtime/plan/recompute/recompute_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "platform/base/stable_sort.h"
#include "runtime/plan/recompute/recompute_segments.h"

namespace graft {
namespace {

using Dropped = std::vector<char>;
using Members = std::vector<std::size_t>;

constexpr int kSegmentSizes = 24;
constexpr std::size_t kNeighbours = 12;  // of each kind, on large graphs
constexpr std::size_t kSmall = 32;       // candidates of a graph of which all neighbours are looked at
constexpr std::size_t kMaxChoices = 64;
constexpr std::size_t kMostTried = 3000;
constexpr std::size_t kRelaxTrials = 32;

/// Work that a kept byte saves, by the node that makes it alone.
double density(const RecomputeEvaluator& evaluate, std::size_t c) {
  return static_cast<double>(evaluate.work(c)) / static_cast<double>(std::max<std::uint64_t>(evaluate.bytes(c), 1));
}

/// Keeps whole classes of what a choice drops, the one that saves most work for its bytes first.
class Keeping {
 public:
  Keeping(RecomputeEvaluator& evaluate, const RecomputeClasses& classes, RecomputeChoice& choice)
      : evaluate_(evaluate), choice_(choice) {
    for (const Members& all : classes) {
      Group group;
      for (const std::size_t c : all) {
        if (choice.dropped[c] == 0) continue;
        group.members.push_back(c);
        group.bytes += evaluate.bytes(c);
      }
      if (!group.members.empty()) groups_.push_back(std::move(group));
    }
  }

  /// Keeps one more class, or the part of it that `peak` allows; false where no work can be saved any more.
  bool step(std::uint64_t peak) {
    while (!groups_.empty()) {
      // Gains rarely grow as more is kept: the first that still leads once it is weighed anew is the best.
      const auto best = std::max_element(groups_.begin(), groups_.end(),
                                         [](const Group& a, const Group& b) { return a.gain < b.gain; });
      if (best->gain == 0) return false;
      if (best->weighed != round_) {
        best->weighed = round_;
        const std::uint64_t saved = choice_.cost.work - std::min(choice_.cost.work, kept(best->members, 0).cost.work);
        best->gain = static_cast<double>(saved) / static_cast<double>(std::max<std::uint64_t>(best->bytes, 1));
        continue;
      }
      const Members members = std::move(best->members);
      groups_.erase(best);
      if (!keep_what_fits(members, peak)) continue;
      ++round_;
      return true;
    }
    return false;
  }

  std::size_t tried() const { return tried_; }

 private:
  struct Group {
    Members members;
    std::uint64_t bytes = 0;
    double gain = std::numeric_limits<double>::max();  ///< work saved for a byte
    int weighed = -1;                                  ///< in which round
  };

  /// With members `from` and later kept.
  RecomputeChoice kept(const Members& members, std::size_t from) {
    ++tried_;
    Dropped dropped = choice_.dropped;
    for (std::size_t i = from; i < members.size(); ++i) dropped[members[i]] = 0;
    const RecomputeCost cost = evaluate_(dropped);
    return {std::move(dropped), cost};
  }

  bool keep_what_fits(const Members& members, std::uint64_t peak) {
    std::size_t from = 0;
    std::size_t fits = members.size();  // the least known to fit
    bool better = false;
    while (from < fits) {
      const std::size_t at = fits == members.size() && from == 0 ? 0 : (from + fits) / 2;
      RecomputeChoice next = kept(members, at);
      if (next.cost.peak > peak || next.cost.work > choice_.cost.work) {
        from = at + 1;
        continue;
      }
      better = better || next.cost.work < choice_.cost.work;
      best_ = std::move(next);
      fits = at;
    }
    if (fits != members.size() && better) choice_ = std::move(best_);
    return better;
  }

  RecomputeEvaluator& evaluate_;
  RecomputeChoice& choice_;
  RecomputeChoice best_;
  std::vector<Group> groups_;
  int round_ = 0;
  std::size_t tried_ = 0;
};

class Search {
 public:
  Search(RecomputeEvaluator& evaluate, std::uint64_t work)
      : evaluate_(evaluate), classes_(find_recompute_classes(evaluate.graph())) {
    const std::size_t n = evaluate.graph().candidates().size();
    if (n <= kSmall) {
      classes_.clear();
      for (std::size_t c = 0; c < n; ++c) classes_.push_back({c});
    }
    const std::uint64_t nodes = evaluate.graph().graph().nodes().size() + 1;
    left_ = static_cast<std::size_t>(std::min<std::uint64_t>(kMostTried, work / nodes + 1));
  }

  std::vector<RecomputeChoice> run() {
    const Dropped nothing = nothing_dropped(evaluate_.graph());
    const RecomputeChoice none{nothing, evaluate_(nothing)};
    grain_ = none.cost.peak / 1024;
    archive_.push_back({none, 0});
    std::vector<RecomputeChoice> seeds = cut_segments();
    seeds.push_back(drop_classes(none));
    keep_classes(seeds);
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
  void offer(const RecomputeChoice& choice) {
    for (const Entry& e : archive_) {
      if (e.choice.cost.work <= choice.cost.work && e.choice.cost.peak <= choice.cost.peak + grain_) return;
    }
    std::erase_if(archive_, [&](const Entry& e) {
      return e.choice.cost.work >= choice.cost.work && e.choice.cost.peak >= choice.cost.peak;
    });
    const auto at = std::find_if(archive_.begin(), archive_.end(),
                                 [&](const Entry& e) { return e.choice.cost.peak < choice.cost.peak; });
    archive_.insert(at, {choice, 0});
  }

  std::vector<RecomputeChoice> cut_segments() {
    const Segments segments(evaluate_);
    const double total = static_cast<double>(std::max<std::uint64_t>(segments.saved_bytes(), 1));
    std::vector<RecomputeChoice> seeds;
    for (int i = 0; i < kSegmentSizes && left_ > 0; ++i) {
      Dropped dropped = segments.cut(static_cast<std::uint64_t>(total * std::pow(0.8, i)));
      if (dropped.empty()) break;
      if (!seeds.empty() && dropped == seeds.back().dropped) continue;
      const RecomputeCost cost = evaluate_(dropped);
      --left_;
      seeds.push_back({std::move(dropped), cost});
      offer(seeds.back());
    }
    return seeds;
  }

  /// Drops the class that takes most off the peak and what is nearly as high, for its work; and again, while any does.
  RecomputeChoice drop_classes(RecomputeChoice choice) {
    const std::size_t floor = left_ / 2;
    while (left_ > floor) {
      const std::uint64_t level = choice.cost.peak / 8 * 7;
      const std::uint64_t above = evaluate_(choice.dropped, level).above;
      RecomputeChoice best;
      double best_gain = 0;
      for (const Members& members : classes_) {
        Dropped next = choice.dropped;
        for (const std::size_t c : members) next[c] = 1;
        if (next == choice.dropped) continue;
        const RecomputeCost cost = evaluate_(next, level);
        left_ -= left_ > 0;
        offer({next, cost});
        const double more = static_cast<double>(cost.work) - static_cast<double>(choice.cost.work);
        const double gain = (static_cast<double>(above) - static_cast<double>(cost.above)) / std::max(more, 1.0);
        if (gain <= best_gain) continue;
        best_gain = gain;
        best = {std::move(next), cost};
      }
      if (best_gain <= 0) break;
      choice = std::move(best);
    }
    return choice;
  }

  /// On large graphs this is where most of the work goes; a third is left.
  void keep_classes(const std::vector<RecomputeChoice>& seeds) {
    const std::size_t floor = left_ / 3;
    for (const RecomputeChoice& seed : seeds) {
      RecomputeChoice choice = seed;
      Keeping keeping(evaluate_, classes_, choice);
      std::size_t tried = 0;
      while (left_ > floor && keeping.step(std::numeric_limits<std::uint64_t>::max())) {
        offer(choice);
        left_ -= std::min(left_, keeping.tried() - tried);
        tried = keeping.tried();
      }
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
    graft::stable_sort(all.begin(), all.end(),
                       [&](std::size_t a, std::size_t b) { return evaluate_.work(a) > evaluate_.work(b); });
    all.resize(std::min(all.size(), kNeighbours));
    around.insert(around.end(), all.begin(), all.end());
    return around;
  }

  /// Candidates kept and alive at the choice's peak, the largest first.
  std::vector<std::size_t> alive_at_peak(const RecomputeChoice& choice) {
    evaluate_(choice.dropped);
    const std::vector<char> alive = evaluate_.alive_at_peak();
    std::vector<std::size_t> kept;
    for (std::size_t c = 0; c < choice.dropped.size(); ++c) {
      if (choice.dropped[c] == 0 && alive[c] != 0) kept.push_back(c);
    }
    graft::stable_sort(kept.begin(), kept.end(),
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
  RecomputeClasses classes_;
  std::size_t left_;  ///< choices that may still be tried
  std::uint64_t grain_ = 0;
  std::vector<Entry> archive_;  ///< by falling peak, so by rising work
};

}  // namespace

std::vector<RecomputeChoice> find_recompute_choices(RecomputeEvaluator& evaluate, std::uint64_t work) {
  return Search(evaluate, work).run();
}

RecomputeChoice relax(RecomputeEvaluator& evaluate, const RecomputeClasses& classes, RecomputeChoice choice,
                      std::uint64_t peak) {
  Keeping keeping(evaluate, classes, choice);
  while (keeping.step(peak)) {
  }
  // What is left of room goes to single values: as many as possible at once, then halves of what is left.
  Members gone;
  for (std::size_t c = 0; c < choice.dropped.size(); ++c) {
    if (choice.dropped[c] != 0) gone.push_back(c);
  }
  graft::stable_sort(gone.begin(), gone.end(),
                     [&](std::size_t a, std::size_t b) { return density(evaluate, a) > density(evaluate, b); });
  std::size_t chunk = gone.size();
  std::size_t trials = 0;
  for (std::size_t at = 0; at < gone.size() && trials < kRelaxTrials;) {
    const std::size_t end = std::min(gone.size(), at + chunk);
    Dropped kept = choice.dropped;
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
  return choice;
}

}  // namespace graft
