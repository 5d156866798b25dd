// Losses of language models that learn which of two texts is preferred. A sample holds two texts, each in a half of its
// own, which do not see each other (passes::packed_sequences): what was chosen and what was rejected, or of kto a text
// and one of another prompt. Labels that are not ignored are the tokens that count. What the reference model gives for
// the two is an input of its own, "reference": [2], and of kto 1 or -1 behind it, for texts that are wanted or not.
// The log-probability of a text is the negated sum of the head's losses: the logits are never whole.
#include "runtime/core/op_def.h"
#include "runtime/core/op_id.gen.h"
#include "runtime/train/step/loss_kinds.h"

namespace graft::train {
namespace {

/// What the losses are made of; [samples, 2] where nothing else is said.
struct Pair {
  ValueId sums;    ///< log-probabilities
  ValueId counts;  ///< tokens that count, at least 1
  ValueId reference = kNoValue;
};

class PreferenceTerm {
 public:
  explicit PreferenceTerm(TermBuilder& t) : t_(t), b_(t.b) {}

  Result<ValueId> add() {
    GRAFT_TRY_ASSIGN(const Pair pair, read_pair());
    ValueId rows;
    switch (t_.options.kind) {
      case Loss::dpo: rows = dpo(pair); break;
      case Loss::ipo: rows = ipo(pair); break;
      case Loss::orpo: rows = orpo(pair); break;
      default: rows = kto(pair); break;
    }
    GRAFT_TRY(Status(failed_));
    GRAFT_TRY(b_.status());
    return rows;
  }

 private:
  Result<Pair> read_pair() {
    const Shape shape = b_.shape(t_.of[0]);
    if (shape.rank() != 3 || shape[0] != Dim(t_.samples) || shape[1].value() % 2 != 0) {
      return invalid("The loss ", loss_name(t_.options.kind), " is of language models whose samples hold two texts; \"",
                     b_.graph().value(t_.of[0]).name, "\" has the shape ", shape.text(), ".");
    }
    const Shape places = Shape::of({t_.samples, shape[1].value()});
    const Shape halves = Shape::of({t_.samples, 2, shape[1].value() / 2});
    GRAFT_TRY_ASSIGN(const ValueId labels, t_.target(DType::i32, places));
    t_.loss.counts[t_.number].per_sample = 1;
    Attrs attrs = {{"ignore_index", std::int64_t{t_.options.ignore_index}}, {"label_smoothing", 0.0}};
    const auto head = head_of_logits(b_.graph(), t_.of[0]);
    const ValueId costs =
        head ? head_costs(b_, *head, labels, attrs) : b_.node(Op::cross_entropy, {t_.of[0], labels}, attrs);
    const ValueId ignored = b_.node(Op::equal, {labels, b_.full({}, t_.options.ignore_index, DType::i32)});
    const ValueId counting = b_.affine(to_number(ignored), -1, 1);
    Pair pair{b_.neg(b_.reduce_sum(b_.reshape(costs, halves), {2}, false)),
              b_.node(Op::maximum, {b_.reduce_sum(b_.reshape(counting, halves), {2}, false), b_.full({}, 1)})};
    GRAFT_TRY(b_.status());
    t_.prediction = pair.sums;
    if (!needs_reference(t_.options.kind)) return pair;
    const std::int64_t numbers = t_.options.kind == Loss::kto ? 3 : 2;
    GRAFT_TRY_ASSIGN(t_.loss.reference, b_.graph().add_value(std::string(kReferenceField), DType::f32,
                                                             Shape::of({t_.samples, numbers}), ValueKind::input));
    pair.reference = t_.loss.reference;
    return pair;
  }

  ValueId to_number(ValueId v) { return b_.node(Op::cast, {v}, {{"to", static_cast<std::int64_t>(DType::f32)}}); }

  /// The sum of columns by weights: [samples].
  ValueId pick(std::string_view name, ValueId columns, std::vector<float> weights) {
    const auto count = static_cast<std::int64_t>(weights.size());
    auto constant = t_.constant(name, Shape::of({count}), std::move(weights));
    if (!constant.ok()) {
      failed_ = constant.status();
      return columns;
    }
    return b_.reduce_sum(b_.mul(columns, *constant), {1}, false);
  }
  ValueId difference(ValueId columns) { return pick("difference", columns, {1, -1}); }

  /// How many samples are told apart rightly, and by how much.
  void count_right(ValueId margin, ValueId rewards) {
    const ValueId right = b_.node(Op::greater, {margin, b_.full({}, 0)});
    t_.loss.correct = b_.reduce_sum(to_number(right), {}, false);
    t_.loss.margin = b_.reduce_sum(rewards, {}, false);
  }

  /// -log sigmoid(b x), with a share of pairs that are the wrong way round.
  ValueId dpo(const Pair& pair) {
    const ValueId x = b_.scale(difference(b_.sub(pair.sums, pair.reference)), t_.options.preference_beta);
    count_right(x, x);
    const ValueId rows = b_.node(Op::softplus, {b_.neg(x)});
    const double wrong = t_.options.label_smoothing;
    if (wrong == 0) return rows;
    return b_.add(b_.scale(rows, 1 - wrong), b_.scale(b_.node(Op::softplus, {x}), wrong));
  }

  /// (x - 1 / (2 b))^2 of means over tokens.
  ValueId ipo(const Pair& pair) {
    const double beta = t_.options.preference_beta;
    const ValueId x = difference(b_.div(b_.sub(pair.sums, pair.reference), pair.counts));
    count_right(x, b_.scale(x, beta));
    return b_.node(Op::square, {b_.affine(x, 1, -1 / (2 * beta))});
  }

  /// The chosen text's mean loss, and b times -log sigmoid of how much its log-odds are above the other's.
  ValueId orpo(const Pair& pair) {
    const ValueId means = b_.div(pair.sums, pair.counts);
    const ValueId below = b_.node(Op::minimum, {means, b_.full({}, -1e-6)});  // odds have no bound at probability 1
    const ValueId odds = b_.sub(below, b_.node(Op::log, {b_.neg(b_.node(Op::expm1, {below}))}));
    const ValueId apart = difference(means);
    count_right(apart, b_.scale(apart, t_.options.preference_beta));
    const ValueId ratio = b_.node(Op::softplus, {b_.neg(difference(odds))});
    return b_.add(b_.neg(pick("chosen", means, {1, 0})), b_.scale(ratio, t_.options.preference_beta));
  }

  /// A number that gradients do not go through.
  ValueId held(ValueId number) {
    constexpr double kUnit = 1 << 20;
    const ValueId whole = b_.node(Op::cast, {b_.scale(number, kUnit)}, {{"to", static_cast<std::int64_t>(DType::i32)}});
    return b_.scale(to_number(whole), 1 / kUnit);
  }

  /// w (1 - sigmoid(b y (r - z))) with z the mean reward of texts of other prompts, from 0.
  ValueId kto(const Pair& pair) {
    const LossOptions& o = t_.options;
    const ValueId reward = b_.sub(pick("chosen", pair.sums, {1, 0}), pick("first", pair.reference, {1, 0, 0}));
    const ValueId other = b_.sub(pick("other", pair.sums, {0, 1}), pick("second", pair.reference, {0, 1, 0}));
    const ValueId wanted = pick("wanted", pair.reference, {0, 0, 1});
    const ValueId mean = b_.scale(b_.reduce_sum(other, {}, false), 1 / static_cast<double>(t_.samples));
    constexpr double kMost = 1000;
    const ValueId z = held(b_.node(Op::minimum, {b_.node(Op::maximum, {mean, b_.full({}, 0)}), b_.full({}, kMost)}));
    const ValueId x = b_.scale(b_.mul(wanted, b_.sub(reward, z)), o.preference_beta);
    count_right(x, b_.scale(b_.mul(wanted, reward), o.preference_beta));
    const ValueId weight = b_.affine(wanted, (o.desirable_weight - o.undesirable_weight) / 2,
                                     (o.desirable_weight + o.undesirable_weight) / 2);
    return b_.mul(weight, b_.node(Op::sigmoid, {b_.neg(x)}));
  }

  TermBuilder& t_;
  Builder& b_;
  Status failed_;
};

}  // namespace

Result<ValueId> add_preference(TermBuilder& t) { return PreferenceTerm(t).add(); }

}  // namespace graft::train
