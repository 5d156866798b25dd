// TFLite_Detection_PostProcess beside a plain loop over what TensorFlow Lite documents of its reference kernel.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <random>

#include "flatbuffers/flexbuffers.h"
#include "runtime/reference/interpreter.h"
#include "tests/support/model_tensors.h"
#include "tests/support/files/tflite_writer.h"
#include "tools/convert/tflite/convert_tflite.h"
#include "tools/convert/tflite/flex_numbers.h"

namespace graft::test::convert_tflite_detection_test {
namespace {

using B = tfl::BuiltinOperator;
using Floats = std::vector<float>;

struct Options {
  int max_detections = 4, detections_per_class = 3, num_classes = 3, max_classes = 1;
  bool regular = false, background = true;
  float iou = 0.45F, score = 0.25F;
};

std::vector<std::uint8_t> flex(const Options& o, bool indirect = false) {
  flexbuffers::Builder b;
  b.Map([&] {
    b.Int("max_detections", o.max_detections);
    b.Int("max_classes_per_detection", o.max_classes);
    b.Int("detections_per_class", o.detections_per_class);
    b.Bool("use_regular_nms", o.regular);
    if (indirect) {
      b.IndirectFloat("nms_score_threshold", o.score);
      b.IndirectFloat("nms_iou_threshold", o.iou);
      b.IndirectInt("num_classes", o.num_classes);
    } else {
      b.Float("nms_score_threshold", o.score);
      b.Float("nms_iou_threshold", o.iou);
      b.Int("num_classes", o.num_classes);
    }
    b.Float("y_scale", 10);
    b.Float("x_scale", 10);
    b.Float("h_scale", 5);
    b.Float("w_scale", 5);
    b.String("name", "a text is passed over");
  });
  b.Finish();
  return b.GetBuffer();
}

struct Scene {
  int boxes = 24, columns = 4;
  Floats encodings, scores, anchors;
};

Scene scene(const Options& o, unsigned seed) {
  std::mt19937 random(seed);
  const auto draw = [&](float low, float high) {
    return low + (high - low) * static_cast<float>(random() % 4096) / 4096;
  };
  Scene s;
  for (int i = 0; i < s.boxes; ++i) {
    for (int k = 0; k < 4; ++k) s.encodings.push_back(draw(-4, 4));
    for (const float v : {draw(0.1F, 0.9F), draw(0.1F, 0.9F), draw(0.2F, 0.5F), draw(0.2F, 0.5F)})
      s.anchors.push_back(v);
    // Multiples of 1/16: some are equal, and some are the threshold.
    for (int k = 0; k < o.num_classes + o.background; ++k) s.scores.push_back(std::floor(draw(0, 16)) / 16);
  }
  return s;
}

std::string file_of(const Options& o, const Scene& s, std::vector<std::uint8_t> options, bool quantized = false) {
  TfliteWriter w;
  const tfl::TensorType type = quantized ? tfl::TensorType::UINT8 : tfl::TensorType::FLOAT32;
  const int encodings = w.tensor("encodings", {1, s.boxes, 4}, type);
  const int scores = w.tensor("scores", {1, s.boxes, o.num_classes + o.background}, type);
  if (quantized) {
    w.quantize(encodings, {1.0F / 16}, {128});
    w.quantize(scores, {1.0F / 16}, {0});
  }
  const int anchors = w.floats("my_priors", {s.boxes, 4}, s.anchors);
  std::vector<int> out;
  for (const char* name : {"boxes", "classes", "found", "count"}) out.push_back(w.tensor(name, {}));
  w.op(B::CUSTOM, {encodings, scores, anchors}, out);
  w.model().operator_codes.back()->custom_code = "TFLite_Detection_PostProcess";
  w.graph().operators.back()->custom_options = std::move(options);
  return w.file({encodings, scores}, out);
}

Result<convert::Converted> converted(const std::string& file) {
  std::vector<std::uint64_t> aligned((file.size() + 7) / 8);
  if (!file.empty()) std::memcpy(aligned.data(), file.data(), file.size());
  GRAFT_TRY_ASSIGN(convert::OnnxGraph graph,
                   convert::read_tflite(std::as_bytes(std::span(aligned)).first(file.size()), {}));
  return convert::convert_onnx(std::move(graph), "test.tflite", {});
}

using Results = std::map<std::string, RefTensor>;

Results run(const Model& model, const Scene& s) {
  RefTensors tensors = weights_of(model);
  for (const ValueId id : model.graph.inputs()) {
    const Value& value = model.graph.value(id);
    const Floats& given = value.name == "scores" ? s.scores : s.encodings;
    tensors[value.name] = RefTensor{value.shape.values(), {given.begin(), given.end()}};
  }
  const Status status = interpret(model.graph, tensors);
  EXPECT_TRUE(status.ok()) << status.message();
  Results out;
  for (const Output& output : model.graph.outputs()) {
    if (status.ok()) out[output.name] = tensors[model.graph.value(output.value).name];
  }
  return out;
}

// ---- the kernel's way: each class or each box in turn, sorted lists

struct Corner {
  float ymin, xmin, ymax, xmax;
  float area() const { return (ymax - ymin) * (xmax - xmin); }
};

std::vector<Corner> decoded(const Scene& s) {
  std::vector<Corner> out;
  for (int i = 0; i < s.boxes; ++i) {
    const float* e = s.encodings.data() + 4 * i;
    const float* a = s.anchors.data() + 4 * i;
    const float y = e[0] / 10 * a[2] + a[0], x = e[1] / 10 * a[3] + a[1];
    const float h = 0.5F * std::exp(e[2] / 5) * a[2], w = 0.5F * std::exp(e[3] / 5) * a[3];
    out.push_back({y - h, x - w, y + h, x + w});
  }
  return out;
}

std::vector<int> suppressed(const std::vector<Corner>& boxes, const Floats& scores, const Options& o, int most) {
  std::vector<int> order, selected;
  for (int i = 0; i < static_cast<int>(scores.size()); ++i) {
    if (scores[static_cast<std::size_t>(i)] >= o.score) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return scores[static_cast<std::size_t>(a)] > scores[static_cast<std::size_t>(b)];
  });
  std::vector<bool> active(order.size(), true);
  for (std::size_t i = 0; i < order.size() && static_cast<int>(selected.size()) < most; ++i) {
    if (!active[i]) continue;
    selected.push_back(order[i]);
    const Corner& a = boxes[static_cast<std::size_t>(order[i])];
    for (std::size_t j = i + 1; j < order.size(); ++j) {
      const Corner& b = boxes[static_cast<std::size_t>(order[j])];
      const float shared = std::max(std::min(a.ymax, b.ymax) - std::max(a.ymin, b.ymin), 0.0F) *
                           std::max(std::min(a.xmax, b.xmax) - std::max(a.xmin, b.xmin), 0.0F);
      if (shared / (a.area() + b.area() - shared) > o.iou) active[j] = false;
    }
  }
  return selected;
}

struct Found {
  int box, of_class;
  float score;
};

std::vector<Found> expected_detections(const Options& o, const Scene& s) {
  const std::vector<Corner> boxes = decoded(s);
  const int stride = o.num_classes + o.background;
  const auto score = [&](int box, int k) {
    return s.scores[static_cast<std::size_t>(box * stride + k + o.background)];
  };
  std::vector<Found> all;
  if (o.regular) {
    for (int k = 0; k < o.num_classes; ++k) {
      Floats of_class;
      for (int i = 0; i < s.boxes; ++i) of_class.push_back(score(i, k));
      for (const int box : suppressed(boxes, of_class, o, std::min(o.detections_per_class, o.max_detections))) {
        all.push_back({box, k, score(box, k)});
      }
      std::stable_sort(all.begin(), all.end(), [](const Found& a, const Found& b) { return a.score > b.score; });
      if (static_cast<int>(all.size()) > o.max_detections) all.resize(static_cast<std::size_t>(o.max_detections));
    }
    return all;
  }
  Floats best;
  std::vector<int> classes;
  for (int i = 0; i < s.boxes; ++i) {
    int k = 0;
    for (int other = 1; other < o.num_classes; ++other) k = score(i, other) > score(i, k) ? other : k;
    classes.push_back(k);
    best.push_back(score(i, k));
  }
  for (const int box : suppressed(boxes, best, o, o.max_detections)) {
    const auto at = static_cast<std::size_t>(box);
    all.push_back({box, classes[at], best[at]});
  }
  return all;
}

void expect_detections(const Options& o, const Scene& s, const Results& got) {
  const std::vector<Found> wanted = expected_detections(o, s);
  const std::vector<Corner> boxes = decoded(s);
  const auto room = static_cast<std::size_t>(o.max_detections);
  ASSERT_EQ(got.at("boxes").dims, (std::vector<std::int64_t>{1, o.max_detections, 4}));
  ASSERT_EQ(got.at("classes").dims, (std::vector<std::int64_t>{1, o.max_detections}));
  ASSERT_EQ(got.at("found").dims, (std::vector<std::int64_t>{1, o.max_detections}));
  ASSERT_EQ(got.at("count").data, std::vector<double>{static_cast<double>(wanted.size())});
  for (std::size_t i = 0; i < room; ++i) {
    const bool there = i < wanted.size();
    EXPECT_EQ(got.at("classes").data[i], there ? wanted[i].of_class : 0) << i;
    EXPECT_EQ(got.at("found").data[i], there ? static_cast<double>(wanted[i].score) : 0) << i;
    const Corner c = there ? boxes[static_cast<std::size_t>(wanted[i].box)] : Corner{0, 0, 0, 0};
    const float corners[] = {c.ymin, c.xmin, c.ymax, c.xmax};
    for (std::size_t k = 0; k < 4; ++k) {
      EXPECT_NEAR(got.at("boxes").data[4 * i + k], static_cast<double>(corners[k]), 1e-6) << i;
    }
  }
}

TEST(ConvertTfliteDetection, BothKindsOfSuppressionAreAsTheReferenceKernel) {
  std::size_t found = 0;
  for (const bool regular : {false, true}) {
    for (const bool background : {false, true}) {
      for (unsigned seed = 1; seed <= 4; ++seed) {
        SCOPED_TRACE(cat("regular ", regular, ", background ", background, ", seed ", seed));
        Options o{.regular = regular, .background = background};
        if (seed == 2) o.max_detections = 40, o.detections_per_class = 2;  // more than there can be
        if (seed == 3) o.score = 0.9375F;                                  // few, or exactly this good
        if (seed == 4) o.iou = 0.05F;
        const Scene s = scene(o, seed);
        const auto result = converted(file_of(o, s, flex(o, seed == 2)));
        ASSERT_TRUE(result.ok()) << result.status().message();
        expect_detections(o, s, run(result->model, s));
        found += expected_detections(o, s).size();
      }
    }
  }
  EXPECT_GT(found, 30u);
}

TEST(ConvertTfliteDetection, QuantizedInputsAreTakenAsTheirNumbers) {
  const Options o{.regular = true};
  Scene s = scene(o, 5);
  for (float& v : s.encodings) v = std::round(v * 16) / 16;
  const auto result = converted(file_of(o, s, flex(o), true));
  ASSERT_TRUE(result.ok()) << result.status().message();
  expect_detections(o, s, run(result->model, s));
}

TEST(ConvertTfliteDetection, AnchorsAreNotTrained) {
  const Options o;
  const Scene s = scene(o, 6);
  const auto result = converted(file_of(o, s, flex(o)));
  ASSERT_TRUE(result.ok()) << result.status().message();
  const ValueId anchors = result->model.graph.find_value("my_priors");
  ASSERT_TRUE(anchors.valid());
  EXPECT_EQ(result->model.graph.value(anchors).kind, ValueKind::constant);
}

TEST(ConvertTfliteDetection, WhatDoesNotFitIsRefused) {
  const auto refused = [](const Options& o, const char* part) {
    const Scene s = scene(Options{}, 1);
    const auto result = converted(file_of(Options{}, s, flex(o)));
    ASSERT_FALSE(result.ok());
    EXPECT_NE(result.status().message().find(part), std::string::npos) << result.status().message();
  };
  refused({.num_classes = 1}, "1 classes");
  refused({.num_classes = 9}, "9 classes");
  refused({.max_detections = 0}, "max_detections");
  refused({.max_detections = 1 << 30}, "max_detections");
  refused({.max_detections = -1}, "max_detections");
  refused({.max_classes = 3}, "use_regular_nms");
  refused({.detections_per_class = 0, .regular = true}, "detections_per_class");
  refused({.iou = std::nanf("")}, "nms_iou_threshold");
  refused({.score = HUGE_VALF}, "nms_score_threshold");
  const Scene s = scene(Options{}, 1);
  for (const auto& bytes :
       {std::vector<std::uint8_t>{}, std::vector<std::uint8_t>{0}, std::vector<std::uint8_t>{1, 2, 3}}) {
    EXPECT_FALSE(converted(file_of(Options{}, s, bytes)).ok());
  }
}

// FlexBuffers' own builder writes, this reader reads: the numbers come through whatever their width.
TEST(FlexNumbers, ReadsWhatTheBuilderWrites) {
  for (const std::int64_t big : {std::int64_t{3}, std::int64_t{-200}, std::int64_t{70000}, std::int64_t{1} << 40}) {
    flexbuffers::Builder b;
    b.Map([&] {
      b.Int("big", big);
      b.UInt("unsigned", 250);
      b.Double("double", 1e-300);
      b.Float("float", 0.5F);
      b.Bool("yes", true);
      b.Null("nothing");
      b.Vector("list", [&] { b.Int(1); });
      b.IndirectInt("far", -5);
    });
    b.Finish();
    const auto read = convert::read_flex_numbers(std::as_bytes(std::span(b.GetBuffer())));
    ASSERT_TRUE(read.ok()) << read.status().message();
    const convert::FlexNumbers wanted = {{"big", static_cast<double>(big)},
                                         {"unsigned", 250},
                                         {"double", 1e-300},
                                         {"float", 0.5},
                                         {"yes", 1},
                                         {"far", -5}};
    EXPECT_EQ(*read, wanted);
  }
}

TEST(FlexNumbers, EveryTruncationAndFlippedBitIsReadWithinItsBytes) {
  const std::vector<std::uint8_t> whole = flex({}, true);
  std::size_t read = 0;
  for (std::size_t size = 0; size < whole.size(); ++size) {
    // In memory of exactly that size, so that sanitizers see what is read beyond.
    const std::vector<std::uint8_t> part(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
    read += convert::read_flex_numbers(std::as_bytes(std::span(part))).ok();
  }
  for (std::size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    std::vector<std::uint8_t> changed = whole;
    changed[bit / 8] = static_cast<std::uint8_t>(changed[bit / 8] ^ (1u << bit % 8));
    read += convert::read_flex_numbers(std::as_bytes(std::span(changed))).ok();
  }
  EXPECT_LT(read, 9 * whole.size());
}

}  // namespace
}  // namespace graft::test::convert_tflite_detection_test
