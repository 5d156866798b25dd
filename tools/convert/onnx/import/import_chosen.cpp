// Ops whose results are as long as the data decide: boxes that are kept, elements that are not zero, slices that a
// condition takes. The graph has room for the most that there can be, and counts them.
#include <algorithm>
#include <cmath>
#include <limits>

#include "runtime/core/op_id.gen.h"
#include "tools/convert/onnx/import/chosen.h"

namespace graft::convert {
namespace {

constexpr std::int64_t kToLast = std::numeric_limits<std::int32_t>::max();

Result<Dim> sizes_product(const Shape& shape, std::size_t from, std::size_t to) {
  GRAFT_TRY_ASSIGN(const Dim product, Shape(std::vector<Dim>(shape.begin() + static_cast<std::ptrdiff_t>(from),
                                                             shape.begin() + static_cast<std::ptrdiff_t>(to)))
                                          .element_count());
  if (product.is_constant() && product.value() > kToLast) return unsupported(shape.text(), " has too many elements");
  return product;
}

ValueId quotient_by(NodeContext& c, ValueId x, const Dim& by) {
  return by == Dim(1) ? x : c.emit(Op::div, {x, c.size(by)});
}

ValueId remainder_by(NodeContext& c, ValueId x, const Dim& by) {
  return c.emit(Op::remainder, {x, c.size(by)}, {{"fmod", std::int64_t{0}}});
}

/// 1 where an element is not zero, as i32.
ValueId mask_of(NodeContext& c, ValueId x) {
  if (c.dtype_of(x) != DType::boolean) {
    x = c.emit(Op::not_equal, {x, c.full(Shape{}, 0, c.dtype_of(x))});
  }
  return c.cast(x, DType::i32);
}

// ---- boxes

struct Box {
  double top, left, bottom, right;
};

double overlap(const Box& a, const Box& b) {
  const double height = std::min(a.bottom, b.bottom) - std::max(a.top, b.top);
  const double width = std::min(a.right, b.right) - std::max(a.left, b.left);
  if (height <= 0 || width <= 0) return 0;
  const auto area = [](const Box& box) { return (box.bottom - box.top) * (box.right - box.left); };
  const double shared = height * width, all = area(a) + area(b) - shared;
  return all > 0 ? shared / all : 0;
}

std::vector<Box> boxes_of(const HostTensor& t, std::size_t batch, std::int64_t count, bool centred) {
  std::vector<Box> boxes;
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    const std::size_t at = (batch * static_cast<std::size_t>(count) + i) * 4;
    const auto v = [&](std::size_t k) { return static_cast<double>(t.floats[at + k]); };
    if (centred) {
      boxes.push_back({v(1) - v(3) / 2, v(0) - v(2) / 2, v(1) + v(3) / 2, v(0) + v(2) / 2});
    } else {
      boxes.push_back({std::min(v(0), v(2)), std::min(v(1), v(3)), std::max(v(0), v(2)), std::max(v(1), v(3))});
    }
  }
  return boxes;
}

/// Boxes that are known: so is how many are kept.
HostTensor kept_boxes(const HostTensor& boxes, const HostTensor& scores, bool centred, double most,
                      double overlap_limit, std::optional<double> least) {
  const std::int64_t count = boxes.dims[1], classes = scores.dims[1];
  HostTensor out;
  out.type = ElemType::i64;
  for (std::int64_t batch = 0; batch < boxes.dims[0]; ++batch) {
    const auto all = boxes_of(boxes, static_cast<std::size_t>(batch), count, centred);
    for (std::int64_t one = 0; one < classes; ++one) {
      const float* score = scores.floats.data() + (batch * classes + one) * count;
      std::vector<std::int64_t> order;
      for (std::int64_t i = 0; i < count; ++i) {
        if (!std::isnan(score[i]) && (!least || static_cast<double>(score[i]) > *least)) order.push_back(i);
      }
      std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return score[a] > score[b]; });
      std::vector<std::int64_t> kept;
      for (const std::int64_t i : order) {
        if (static_cast<double>(kept.size()) >= most) break;
        const bool hidden = std::any_of(kept.begin(), kept.end(), [&](std::int64_t other) {
          return overlap(all[static_cast<std::size_t>(i)], all[static_cast<std::size_t>(other)]) > overlap_limit;
        });
        if (hidden) continue;
        kept.push_back(i);
        out.ints.insert(out.ints.end(), {batch, one, i});
      }
    }
  }
  out.dims = {static_cast<std::int64_t>(out.ints.size() / 3), 3};
  return out;
}

/// mask: i32 0 and 1, of lines * size elements.
Chosen choose(NodeContext& c, ValueId mask, const Dim& lines, const Dim& size) {
  const auto all = multiply(lines, size);
  if (!all) c.fail(unsupported("it chooses among too many elements"));
  if (!c.status().ok()) return {};
  const auto last = [&](ValueId x, const Dim& count) {
    const std::int64_t start = count.is_constant() ? count.value() - 1 : -1;
    const bool flat = c.shape_of(x).rank() == 1;
    const auto along = [&](std::int64_t front, std::int64_t back) { return flat ? Ints{back} : Ints{front, back}; };
    return c.emit(Op::slice, {x},
                  {{"starts", along(0, start)}, {"ends", along(kToLast, kToLast)}, {"steps", along(1, 1)}});
  };
  // Counted within each line first: lines are counted side by side.
  ValueId totals = c.emit(Op::cumsum, {c.reshape(mask, Shape{lines, size})}, {{"axis", std::int64_t{1}}});
  if (lines != Dim(1)) {
    const ValueId before =
        c.emit(Op::cumsum, {last(totals, size)}, {{"axis", std::int64_t{0}}, {"exclusive", std::int64_t{1}}});
    totals = c.emit(Op::add, {totals, before});
  }
  totals = c.reshape(totals, Shape{*all});
  Chosen chosen;
  chosen.places = c.emit(Op::compact, {totals});
  chosen.count = c.reshape(last(totals, *all), Shape{});
  return chosen;
}

/// True for rows that are there, along the axis of a value with `rank` axes.
ValueId rows_there(NodeContext& c, const CountedAxis& counted, const Shape& shape) {
  std::vector<Dim> dims(shape.rank(), Dim(1));
  dims[counted.axis] = shape[counted.axis];
  return c.emit(Op::less, {c.reshape(c.counting(shape[counted.axis]), Shape(dims)), counted.count});
}

/// Scores of boxes that are not there are no numbers: such boxes are left out.
Result<ValueId> scores_there(NodeContext& c) {
  const std::optional<CountedAxis>&boxes = c.record(0).counted, &scores = c.record(1).counted;
  if (!boxes && !scores) return c.in(1);
  if (!boxes || !scores || boxes->count != scores->count || boxes->axis != 1 || scores->axis != 2) {
    return refuse_counted(c, boxes ? 0 : 1, "its boxes and scores are not of the same count");
  }
  const ValueId none = c.full(Shape{}, std::numeric_limits<double>::quiet_NaN());
  return c.emit(Op::where, {rows_there(c, *scores, c.shape(1)), c.in(1), none});
}

Status check_boxes(NodeContext& c) {
  for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) {
    if (!is_float(c.type(i))) return corrupt("its input ", i, " is ", elem_name(c.type(i)));
  }
  const Shape &boxes = c.shape(0), &scores = c.shape(1);
  if (boxes.rank() == 3 && scores.rank() == 3 && boxes[2] == Dim(4) && boxes[0] == scores[0] && boxes[1] == scores[2]) {
    return {};
  }
  return corrupt("its boxes ", boxes.text(), " and scores ", scores.text(), " do not fit");
}

/// What stands beside boxes and scores.
struct Suppression {
  double most = 0;  ///< "all" is said by a number that is large enough
  double overlap = 0;
  std::optional<double> least;
  bool centred = false;
};

Result<Suppression> read_suppression(NodeContext& c) {
  Suppression s;
  s.centred = c.attr("center_point_box", 0) != 0;
  if (c.has(2)) {
    GRAFT_TRY_ASSIGN(s.most, c.number(2, "max_output_boxes_per_class"));
  }
  if (c.has(3)) {
    GRAFT_TRY_ASSIGN(s.overlap, c.number(3, "iou_threshold"));
  }
  if (c.has(4)) {
    GRAFT_TRY_ASSIGN(s.least, c.number(4, "score_threshold"));
  }
  if (!(s.overlap >= 0 && s.overlap <= 1)) return corrupt("its iou_threshold is ", s.overlap);
  if (s.least && std::isnan(*s.least)) return corrupt("its score_threshold is no number");
  return s;
}

/// Rows (batch, class, box) of what is kept [batch, classes, most].
Status out_rows(NodeContext& c, ValueId kept) {
  GRAFT_TRY(c.status());
  const Shape found = c.shape_of(kept);
  GRAFT_TRY_ASSIGN(const Dim lines, sizes_product(found, 0, 2));
  GRAFT_TRY_ASSIGN(const Dim of_batch, sizes_product(found, 1, 3));
  GRAFT_TRY_ASSIGN(const Dim rows, sizes_product(found, 0, 3));
  const ValueId zero = c.full(Shape{}, 0, DType::i32);
  const ValueId mask = c.cast(c.emit(Op::greater_equal, {kept, zero}), DType::i32);
  const Chosen chosen = choose(c, mask, lines, found[2]);
  const ValueId batch = quotient_by(c, chosen.places, of_batch);
  const ValueId one_class = quotient_by(c, remainder_by(c, chosen.places, of_batch), found[2]);
  const ValueId box = c.emit(Op::gather, {c.reshape(kept, Shape{rows}), chosen.places}, {{"axis", std::int64_t{0}}});
  // Rows that are not there name box 0, so that what is looked up by them exists.
  std::vector<ValueId> columns = {batch, one_class, c.emit(Op::maximum, {box, zero})};
  for (ValueId& column : columns) column = c.reshape(column, Shape{rows, 1});
  c.out_counted(0, c.emit(Op::concat, columns, {{"axis", std::int64_t{1}}}), ElemType::i64, {0, chosen.count});
  return {};
}

Status non_max_suppression(NodeContext& c) {
  GRAFT_TRY(check_boxes(c));
  GRAFT_TRY_ASSIGN(const Suppression s, read_suppression(c));
  const Dim &count = c.shape(0)[1], &batches = c.shape(1)[0], &classes = c.shape(1)[1];
  if (!(s.most >= 1) || count == Dim(0) || batches == Dim(0) || classes == Dim(0)) {
    HostTensor none = HostTensor::of_ints({});
    none.dims = {0, 3};
    c.out_host(0, std::move(none));
    return {};
  }
  if (c.host(0) != nullptr && c.host(1) != nullptr) {
    c.out_host(0, kept_boxes(*c.host(0), *c.host(1), s.centred, s.most, s.overlap, s.least));
    return {};
  }
  Attrs attrs = {{"iou_threshold", s.overlap}, {"center_point_box", std::int64_t{s.centred}}};
  const double all = static_cast<double>(count.is_constant() ? count.value() : kToLast);
  if (s.most < all) attrs.set("max_output", static_cast<std::int64_t>(s.most));
  if (s.least) attrs.set("score_threshold", *s.least);
  GRAFT_TRY_ASSIGN(const ValueId scores, scores_there(c));
  return out_rows(c, c.emit(Op::nms, {c.in(0), scores}, attrs));
}

// ---- elements and slices

/// Of the elements of input i, lines * size. Asked twice of one value, it gives the same: what is looked up by either
/// has as many rows.
Chosen choose_non_zero(NodeContext& c, std::size_t i, const Dim& lines, const Dim& size) {
  const ValueId x = c.in(i);
  if (!c.status().ok()) return {};
  if (!c.chosen_of(x).count.valid()) {
    ValueId mask = mask_of(c, x);
    if (const auto& counted = c.record(i).counted) {
      mask = c.emit(Op::mul, {mask, c.cast(rows_there(c, *counted, c.shape(i)), DType::i32)});
    }
    c.chosen_of(x) = choose(c, mask, lines, size);
  }
  return c.chosen_of(x);
}

/// Indices of elements that are not zero, a row for each axis.
Status non_zero_places(NodeContext& c) {
  const Shape shape = c.shape(0);
  const std::size_t rank = shape.rank();
  if (rank == 0) return unsupported("its input has no axes");
  GRAFT_TRY_ASSIGN(const Dim count, sizes_product(shape, 0, rank));
  GRAFT_TRY_ASSIGN(const Dim lines, sizes_product(shape, 0, rank - 1));
  if (count == Dim(0)) {
    HostTensor none = HostTensor::of_ints({});
    none.dims = {static_cast<std::int64_t>(rank), 0};
    c.out_host(0, std::move(none));
    return {};
  }
  const Chosen chosen = choose_non_zero(c, 0, lines, shape[rank - 1]);
  std::vector<ValueId> rows;
  for (std::size_t axis = 0; axis < rank; ++axis) {
    GRAFT_TRY_ASSIGN(const Dim stride, sizes_product(shape, axis + 1, rank));
    const ValueId at = quotient_by(c, chosen.places, stride);
    rows.push_back(c.reshape(axis == 0 ? at : remainder_by(c, at, shape[axis]), Shape{1, count}));
  }
  const ValueId y = rank == 1 ? rows[0] : c.emit(Op::concat, rows, {{"axis", std::int64_t{0}}});
  c.out_counted(0, y, ElemType::i64, {1, chosen.count});
  return {};
}

/// The axis that slices are taken along; of all elements in a row where none is given.
Result<std::size_t> line_up(NodeContext& c, ValueId& x) {
  if (c.has_attr("axis")) return c.axis(c.attr("axis", 0), c.rank(0));
  GRAFT_TRY_ASSIGN(const Dim count, c.shape(0).element_count());
  x = c.reshape(x, Shape{count});
  return std::size_t{0};
}

/// Slices where a condition that is known holds.
Status compress_known(NodeContext& c) {
  ValueId x = c.in(0);
  GRAFT_TRY_ASSIGN(const std::size_t axis, line_up(c, x));
  if (!c.status().ok()) return c.status();
  const Dim size = c.shape_of(x)[axis];
  std::vector<std::int64_t> kept;
  for (std::size_t i = 0; i < c.host(1)->count(); ++i) {
    if (c.host(1)->ints[i] != 0) kept.push_back(static_cast<std::int64_t>(i));
  }
  if (!kept.empty() && (!size.is_constant() || kept.back() >= size.value())) {
    return corrupt("its condition has ", c.host(1)->count(), " elements for an axis of size ", size.text());
  }
  c.out(0, c.emit(Op::gather, {x, c.constant(HostTensor::of_ints(std::move(kept)))},
                  {{"axis", static_cast<std::int64_t>(axis)}}));
  return {};
}

Status compress(NodeContext& c) {
  if (c.type(1) != ElemType::boolean || c.rank(1) != 1) {
    return corrupt("its condition is ", elem_name(c.type(1)), " with ", c.rank(1), " axes");
  }
  if (c.host(1) != nullptr && !c.host(1)->symbolic()) return compress_known(c);
  ValueId x = c.in(0);
  GRAFT_TRY_ASSIGN(const std::size_t axis, line_up(c, x));
  if (!c.status().ok()) return c.status();
  const Dim size = c.shape_of(x)[axis], conditions = c.shape(1)[0];
  const bool fits =
      size == conditions || (size.is_constant() && conditions.is_constant() && conditions.value() <= size.value());
  if (!fits) return unsupported("its condition has ", conditions.text(), " elements for an axis of size ", size.text());
  if (conditions == Dim(0)) return unsupported("its condition has no elements");
  const Chosen chosen = choose_non_zero(c, 1, Dim(1), conditions);
  const ValueId y = c.emit(Op::gather, {x, chosen.places}, {{"axis", static_cast<std::int64_t>(axis)}});
  c.out_counted(0, y, c.type(0), {axis, chosen.count});
  return {};
}

// ---- elements that differ

ValueId run_of(NodeContext& c, ValueId x, std::int64_t from, std::int64_t to) {
  return c.emit(Op::slice, {x}, {{"starts", Ints{from}}, {"ends", Ints{to}}, {"steps", Ints{1}}});
}

ValueId looked_up(NodeContext& c, ValueId table, ValueId at) {
  return c.emit(Op::gather, {table, at}, {{"axis", std::int64_t{0}}});
}

/// Elements in order, the groups of equal ones among them, and where each group begins.
struct Groups {
  std::int64_t count = 0;  ///< elements
  ValueId order;           ///< places of the elements, the smallest first; of equals in their own order
  ValueId fresh;           ///< 1 where a group begins, in that order
  ValueId number;          ///< of each element's group, by the element's own place
  Chosen begins;           ///< in that order

  /// Where groups end: where the next one begins, or behind the last element.
  ValueId sizes(NodeContext& c) const {
    const ValueId none = c.full(Shape{1}, 0, DType::i32);
    const ValueId next = c.emit(Op::concat, {run_of(c, begins.places, 1, kToLast), none}, {{"axis", std::int64_t{0}}});
    const ValueId following = c.emit(Op::add, {c.counting(count), c.full(Shape{}, 1, DType::i32)});
    const ValueId is_last = c.emit(Op::greater_equal, {following, begins.count});
    const ValueId ends = c.emit(Op::where, {is_last, c.full(Shape{}, static_cast<double>(count), DType::i32), next});
    return c.emit(Op::sub, {ends, begins.places});
  }
};

/// y[at[i]] = x[i], of places that are a permutation.
ValueId put_back(NodeContext& c, ValueId x, ValueId at, std::int64_t count) {
  return c.emit(Op::scatter_elements, {c.full(Shape{count}, 0, DType::i32), at, x},
                {{"axis", std::int64_t{0}}, {"reduction", std::string("none")}});
}

Groups groups_of(NodeContext& c, ValueId x, std::int64_t count) {
  Groups g{.count = count};
  g.order = c.emit(Op::top_k, {x}, {{"k", count}, {"axis", std::int64_t{0}}, {"smallest", std::int64_t{1}}});
  const ValueId sorted = looked_up(c, x, g.order), one = c.full(Shape{1}, 1, DType::i32);
  const ValueId differs = c.emit(Op::not_equal, {run_of(c, sorted, 1, kToLast), run_of(c, sorted, 0, count - 1)});
  g.fresh = c.emit(Op::concat, {one, c.cast(differs, DType::i32)}, {{"axis", std::int64_t{0}}});
  g.begins = choose(c, g.fresh, Dim(1), Dim(count));
  const ValueId numbers =
      c.emit(Op::sub, {c.emit(Op::cumsum, {g.fresh}, {{"axis", std::int64_t{0}}}), c.full(Shape{}, 1, DType::i32)});
  g.number = put_back(c, numbers, g.order, count);
  return g;
}

/// Of all elements in a row: which differ, where each is first, which of them each is, how often.
Status unique_elements(NodeContext& c) {
  if (c.has_attr("axis") && c.rank(0) != 1) {
    GRAFT_TRY(c.known(0, "input, whose slices it compares,"));
    return unsupported("it cannot be computed at conversion");
  }
  GRAFT_TRY_ASSIGN(const Dim elements, sizes_product(c.shape(0), 0, c.rank(0)));
  constexpr std::int64_t kMost = 1 << 16;  // each is compared with each
  if (!elements.is_constant() || elements.value() < 2 || elements.value() > kMost) {
    return unsupported("its input has ", elements.text(), " elements; 2 to ", kMost, " are supported");
  }
  const ValueId x = c.reshape(c.in(0), Shape{elements});
  if (!c.status().ok()) return c.status();
  if (c.dtype_of(x) == DType::boolean) return unsupported("its input is of truth values");
  const Groups g = groups_of(c, x, elements.value());
  const ValueId firsts = looked_up(c, g.order, g.begins.places);
  if (c.attr("sorted", 1) != 0) {
    const CountedAxis counted{0, g.begins.count};
    c.out_counted(0, looked_up(c, x, firsts), c.type(0), counted);
    c.out_counted(1, firsts, ElemType::i64, counted);
    c.out_typed(2, g.number, ElemType::i64);
    c.out_counted(3, g.sizes(c), ElemType::i64, counted);
    return {};
  }
  // In the order in which they come: groups are numbered anew by their first elements.
  const ValueId is_first = put_back(c, g.fresh, g.order, g.count);
  const Chosen chosen = choose(c, is_first, Dim(1), elements);
  const CountedAxis counted{0, chosen.count};
  const ValueId before = c.emit(Op::cumsum, {is_first}, {{"axis", std::int64_t{0}}, {"exclusive", std::int64_t{1}}});
  c.out_counted(0, looked_up(c, x, chosen.places), c.type(0), counted);
  c.out_counted(1, chosen.places, ElemType::i64, counted);
  c.out_typed(2, looked_up(c, looked_up(c, before, firsts), g.number), ElemType::i64);
  c.out_counted(3, looked_up(c, g.sizes(c), looked_up(c, g.number, chosen.places)), ElemType::i64, counted);
  return {};
}

}  // namespace

const RuleEntry kChosenRules[] = {
    {"NonMaxSuppression", 2, 5, non_max_suppression},
    {"NonZero", 1, 1, non_zero_places},
    {"Compress", 2, 2, compress},
    {"Unique", 1, 1, unique_elements},
    {nullptr, 0, 0, nullptr},
};

}  // namespace graft::convert
