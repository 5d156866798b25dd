// Operators that move elements, and those of shapes.
#include <algorithm>
#include <limits>
#include <optional>

#include "tools/convert/tflite/tflite_context.h"

namespace graft::convert {
namespace {

constexpr std::int64_t kToEnd = std::numeric_limits<std::int32_t>::max();

Status concatenation(OpContext& c) {
  const auto* options = c.op.builtin_options_as_ConcatenationOptions();
  c.out(0, c.add("Concat", c.all(), {{"axis", int_attr(options == nullptr ? 0 : options->axis())}}),
        options == nullptr ? tfl::Activation::NONE : options->activation());
  return {};
}

/// From the second input, or where that is missing from the options. A zero is a size of zero.
Status reshape(OpContext& c) {
  const auto* options = c.op.builtin_options_as_ReshapeOptions();
  std::string shape = c.in(1);
  if (!c.has(1)) {
    if (options == nullptr || options->new_shape() == nullptr) return corrupt("its shape is missing");
    shape = c.constant(Ints(options->new_shape()->begin(), options->new_shape()->end()));
  }
  c.out(0, c.add("Reshape", {c.in(0), shape}, {{"allowzero", int_attr(1)}}));
  return {};
}

/// [[before, after], ...] as ONNX's [before, ..., after, ...].
Result<std::string> paddings(OpContext& c) {
  GRAFT_TRY_ASSIGN(const Ints pairs, c.ints(1, "paddings"));
  const auto rank = static_cast<std::size_t>(c.rank(0));
  if (pairs.size() != 2 * rank) return corrupt("it has ", pairs.size(), " paddings for ", rank, " axes");
  Ints pads(2 * rank);
  for (std::size_t axis = 0; axis < rank; ++axis) {
    pads[axis] = pairs[2 * axis];
    pads[axis + rank] = pairs[2 * axis + 1];
  }
  return c.constant(pads);
}

Status pad(OpContext& c) {
  GRAFT_TRY_ASSIGN(const std::string pads, paddings(c));
  std::vector<std::string> from = {c.in(0), pads};
  if (c.has(2)) from.push_back(c.in(2));
  c.out(0, c.add("Pad", from));
  return {};
}

Status mirror_pad(OpContext& c) {
  const auto* options = c.op.builtin_options_as_MirrorPadOptions();
  if (options == nullptr || options->mode() != tfl::MirrorPadMode::REFLECT) {
    return unsupported("its mode is symmetric (reflect is supported)");
  }
  GRAFT_TRY_ASSIGN(const std::string pads, paddings(c));
  c.out(0, c.add("Pad", {c.in(0), pads}, {{"mode", text_attr("reflect")}}));
  return {};
}

Status transpose(OpContext& c) {
  GRAFT_TRY_ASSIGN(Ints perm, c.ints(1, "permutation"));
  c.out(0, c.add("Transpose", {c.in(0)}, {{"perm", ints_attr(std::move(perm))}}));
  return {};
}

struct Ranges {
  Ints starts, ends, axes, steps;
  void take(std::int64_t axis, std::int64_t start, std::int64_t end, std::int64_t step) {
    starts.push_back(start);
    ends.push_back(end);
    axes.push_back(axis);
    steps.push_back(step);
  }
};

std::string sliced(OpContext& c, const std::string& x, const Ranges& r) {
  if (r.axes.empty()) return x;
  return c.add("Slice", {x, c.constant(r.starts), c.constant(r.ends), c.constant(r.axes), c.constant(r.steps)});
}

Status slice(OpContext& c) {
  GRAFT_TRY_ASSIGN(const Ints begins, c.ints(1, "begin"));
  GRAFT_TRY_ASSIGN(const Ints sizes, c.ints(2, "size"));
  if (begins.size() != sizes.size()) return corrupt("its begin and size differ in length");
  Ranges r;
  for (std::size_t i = 0; i < begins.size(); ++i) {
    if (begins[i] < 0 || sizes[i] < -1) return corrupt("it begins at ", begins[i], " and takes ", sizes[i]);
    if (begins[i] == 0 && sizes[i] == -1) continue;
    r.take(static_cast<std::int64_t>(i), begins[i], sizes[i] == -1 ? kToEnd : begins[i] + sizes[i], 1);
  }
  c.out(0, sliced(c, c.in(0), r));
  return {};
}

bool bit(std::int64_t mask, std::size_t i) { return (mask >> i & 1) != 0; }

/// As Python's x[a:b:c, ..., None, 3]: entries name axes, add one, or stand for all that the others leave.
Status strided_slice(OpContext& c) {
  const auto* options = c.op.builtin_options_as_StridedSliceOptions();
  if (options == nullptr) return corrupt("it has no options");
  GRAFT_TRY_ASSIGN(const Ints begins, c.ints(1, "begin"));
  GRAFT_TRY_ASSIGN(const Ints ends, c.ints(2, "end"));
  GRAFT_TRY_ASSIGN(const Ints steps, c.ints(3, "strides"));
  const std::size_t entries = begins.size(), rank = c.input(0).dims.size();
  if (ends.size() != entries || steps.size() != entries || entries > 2 * Shape::kMaxRank) {
    return corrupt("its begin, end and strides have ", entries, ", ", ends.size(), " and ", steps.size(), " numbers");
  }
  std::size_t named = 0;  // entries that stand for one axis of the input
  for (std::size_t i = 0; i < entries; ++i) {
    named += !bit(options->ellipsis_mask(), i) && !bit(options->new_axis_mask(), i);
  }
  if (named > rank) return corrupt("it names ", named, " axes of ", rank);
  Ranges r;
  Ints removed, added;
  std::int64_t axis = 0, place = 0;  // in the input, and in the result before axes are removed
  for (std::size_t i = 0; i < entries; ++i) {
    if (bit(options->ellipsis_mask(), i)) {
      const auto all = static_cast<std::int64_t>(rank - named);
      axis += all;
      place += all;
    } else if (bit(options->new_axis_mask(), i)) {
      added.push_back(place++);
    } else if (bit(options->shrink_axis_mask(), i)) {
      r.take(axis, begins[i], begins[i] == -1 ? kToEnd : begins[i] + 1, 1);
      removed.push_back(axis++);
    } else {
      const bool back = steps[i] < 0;
      // Before the first element a slice backwards is empty here; ONNX's begins with the first.
      const std::int64_t size = c.input(0).open_dims[static_cast<std::size_t>(axis)];
      if (back && !bit(options->begin_mask(), i) && begins[i] < -1) {
        if (size < 0) return unsupported("it goes backwards from ", begins[i], " along an axis of unknown size");
        if (begins[i] < -size) {
          r.take(axis++, 0, 0, 1);
          ++place;
          continue;
        }
      }
      const std::int64_t start = bit(options->begin_mask(), i) ? (back ? kToEnd : 0) : begins[i];
      const std::int64_t end = bit(options->end_mask(), i) ? (back ? -kToEnd : kToEnd)
                               : options->offset()         ? start + ends[i]
                                                           : ends[i];
      if (start != 0 || end != kToEnd || steps[i] != 1) r.take(axis, start, end, steps[i]);
      ++axis;
      ++place;
    }
  }
  std::string y = sliced(c, c.in(0), r);
  if (!removed.empty()) y = c.add("Squeeze", {y, c.constant(removed)});
  if (!added.empty()) y = c.add("Unsqueeze", {y, c.constant(added)});
  c.out(0, y);
  return {};
}

Status split_at(OpContext& c, std::size_t value, std::size_t axis_input, std::optional<Ints> sizes) {
  GRAFT_TRY_ASSIGN(const Ints axes, c.ints(axis_input, "axis"));
  if (axes.size() != 1) return corrupt("it has ", axes.size(), " axes instead of one");
  GRAFT_TRY_ASSIGN(const std::int64_t axis, c.axis(axes[0], value));
  std::vector<std::string> from = {c.in(value)};
  if (sizes) {
    std::int64_t rest = c.input(value).dims[static_cast<std::size_t>(axis)];
    for (const std::int64_t size : *sizes) rest -= size == -1 ? 0 : size;
    for (std::int64_t& size : *sizes) size = size == -1 ? rest : size;
    from.push_back(c.constant(*sizes));
  }
  const auto parts = c.add_many("Split", from, c.outputs(), {{"axis", int_attr(axis)}});
  for (std::size_t k = 0; k < parts.size(); ++k) c.out(k, parts[k]);
  return {};
}
Status split(OpContext& c) { return split_at(c, 1, 0, std::nullopt); }
Status split_v(OpContext& c) {
  GRAFT_TRY_ASSIGN(Ints sizes, c.ints(1, "sizes"));
  return split_at(c, 0, 2, std::move(sizes));
}

Status squeeze(OpContext& c) {
  const auto* options = c.op.builtin_options_as_SqueezeOptions();
  std::vector<std::string> from = {c.in(0)};
  if (options != nullptr && options->squeeze_dims() != nullptr && options->squeeze_dims()->size() > 0) {
    from.push_back(c.constant(Ints(options->squeeze_dims()->begin(), options->squeeze_dims()->end())));
  }
  c.out(0, c.add("Squeeze", from));
  return {};
}

Status expand_dims(OpContext& c) {
  GRAFT_TRY_ASSIGN(const Ints axes, c.ints(1, "axis"));
  c.out(0, c.add("Unsqueeze", {c.in(0), c.constant(axes)}));
  return {};
}

Status pack(OpContext& c) {
  const auto* options = c.op.builtin_options_as_PackOptions();
  const std::int64_t axis = options == nullptr ? 0 : options->axis();
  std::vector<std::string> rows;
  for (std::size_t i = 0; i < c.inputs(); ++i) {
    if (!c.has(i)) return corrupt("its input ", i, " is missing");
    rows.push_back(c.add("Unsqueeze", {c.in(i), c.constant(Ints{axis})}));
  }
  c.out(0, c.add("Concat", rows, {{"axis", int_attr(axis)}}));
  return {};
}

Status unpack(OpContext& c) {
  const auto* options = c.op.builtin_options_as_UnpackOptions();
  GRAFT_TRY_ASSIGN(const std::int64_t axis, c.axis(options == nullptr ? 0 : options->axis(), 0));
  const auto parts = c.add_many("Split", {c.in(0)}, c.outputs(), {{"axis", int_attr(axis)}});
  for (std::size_t k = 0; k < parts.size(); ++k) c.out(k, c.add("Squeeze", {parts[k], c.constant(Ints{axis})}));
  return {};
}

Status gather(OpContext& c) {
  const auto* options = c.op.builtin_options_as_GatherOptions();
  if (options != nullptr && options->batch_dims() != 0) return unsupported("it has batch_dims");
  c.out(0, c.add("Gather", c.all(), {{"axis", int_attr(options == nullptr ? 0 : options->axis())}}));
  return {};
}
Status gather_nd(OpContext& c) {
  c.out(0, c.add("GatherND", c.all()));
  return {};
}
/// Inputs: indices, table.
Status embedding_lookup(OpContext& c) {
  c.out(0, c.add("Gather", {c.in(1), c.in(0)}, {{"axis", int_attr(0)}}));
  return {};
}

Status reverse(OpContext& c) {
  GRAFT_TRY_ASSIGN(const Ints axes, c.ints(1, "axes"));
  Ranges r;
  for (const std::int64_t axis : axes) r.take(axis, -1, -kToEnd, -1);
  c.out(0, sliced(c, c.in(0), r));
  return {};
}

Status tile(OpContext& c) {
  c.out(0, c.add("Tile", {c.in(0), c.add("Cast", {c.in(1)}, {{"to", int_attr(7)}})}));
  return {};
}
Status broadcast_to(OpContext& c) {
  c.out(0, c.add("Expand", {c.in(0), c.add("Cast", {c.in(1)}, {{"to", int_attr(7)}})}));
  return {};
}
/// Inputs: sizes, value.
Status fill(OpContext& c) {
  c.out(0, c.add("Expand", {c.in(1), c.add("Cast", {c.in(0)}, {{"to", int_attr(7)}})}));
  return {};
}
Status range(OpContext& c) {
  c.out(0, c.add("Range", c.all()));
  return {};
}
Status zeros_like(OpContext& c) {
  c.out(0, c.add("Sub", {c.in(0), c.in(0)}));
  return {};
}

Status shape(OpContext& c) {
  const std::string dims = c.add("Shape", {c.in(0)});
  const bool narrow = c.output(0).elem == ElemType::i32;
  c.out(0, narrow ? c.add("Cast", {dims}, {{"to", int_attr(static_cast<int>(ElemType::i32))}}) : dims);
  return {};
}

Status one_hot(OpContext& c) {
  const auto* options = c.op.builtin_options_as_OneHotOptions();
  const std::string values =
      c.add("Concat",
            {c.add("Unsqueeze", {c.in(3), c.constant(Ints{0})}), c.add("Unsqueeze", {c.in(2), c.constant(Ints{0})})},
            {{"axis", int_attr(0)}});
  c.out(0,
        c.add("ONE_HOT", {c.in(0), c.in(1), values}, {{"axis", int_attr(options == nullptr ? -1 : options->axis())}},
              "tflite"));
  return {};
}

Status top_k(OpContext& c) {
  const std::string k = c.add("Reshape", {c.in(1), c.constant(Ints{1})});
  const auto both = c.add_many("TopK", {c.in(0), k}, 2, {{"axis", int_attr(-1)}});
  c.out(0, both[0]);
  c.out(1, c.add("Cast", {both[1]}, {{"to", int_attr(static_cast<int>(ElemType::i32))}}));
  return {};
}

using B = tfl::BuiltinOperator;

}  // namespace

const TfliteOp kTfliteMoves[] = {
    {B::CONCATENATION, 1, 4096, concatenation},
    {B::RESHAPE, 1, 2, reshape},
    {B::PAD, 2, 2, pad},
    {B::PADV2, 3, 3, pad},
    {B::MIRROR_PAD, 2, 2, mirror_pad},
    {B::TRANSPOSE, 2, 2, transpose},
    {B::SLICE, 3, 3, slice},
    {B::STRIDED_SLICE, 4, 4, strided_slice},
    {B::SPLIT, 2, 2, split},
    {B::SPLIT_V, 3, 3, split_v},
    {B::SQUEEZE, 1, 1, squeeze},
    {B::EXPAND_DIMS, 2, 2, expand_dims},
    {B::PACK, 1, 4096, pack},
    {B::UNPACK, 1, 1, unpack},
    {B::GATHER, 2, 2, gather},
    {B::GATHER_ND, 2, 2, gather_nd},
    {B::EMBEDDING_LOOKUP, 2, 2, embedding_lookup},
    {B::REVERSE_V2, 2, 2, reverse},
    {B::TILE, 2, 2, tile},
    {B::BROADCAST_TO, 2, 2, broadcast_to},
    {B::FILL, 2, 2, fill},
    {B::RANGE, 3, 3, range},
    {B::ZEROS_LIKE, 1, 1, zeros_like},
    {B::SHAPE, 1, 1, shape},
    {B::ONE_HOT, 4, 4, one_hot},
    {B::TOPK_V2, 2, 2, top_k},
    {B::ADD, 0, 0, nullptr},
};

}  // namespace graft::convert
