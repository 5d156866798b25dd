#include "runtime/report/plan_report.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <concepts>
#include <set>
#include <string_view>

#include "platform/base/json.h"
#include "runtime/core/op_def.h"
#include "runtime/report/plan_layers.h"
#include "runtime/report/rounding.h"

namespace graft {
namespace {

/// Appends JSON, members and items in the order of the calls.
class Document {
 public:
  /// body() writes what stands in it.
  template <typename Body>
  void object(Body body) {
    nested('{', '}', body);
  }
  template <typename Body>
  void array(Body body) {
    nested('[', ']', body);
  }
  /// A member's name; its value is the next thing that is written.
  Document& operator[](std::string_view name) {
    separate();
    text_ += json::quoted(name);
    text_ += ':';
    fresh_ = true;
    return *this;
  }
  void operator=(bool value) { put(value ? "true" : "false"); }
  template <std::integral T>
  requires(!std::same_as<T, bool>) void operator=(T value) {
    char digits[24];
    put({digits, std::to_chars(digits, digits + sizeof digits, value).ptr});
  }
  /// Reads back as the same number.
  void operator=(double value) {
    if (!std::isfinite(value)) return put("null");
    char digits[32];
    std::string text(digits, std::to_chars(digits, digits + sizeof digits, value).ptr);
    if (text.find_first_of(".e") == std::string::npos) text += ".0";  // else readers take it for an integer
    put(text);
  }
  void operator=(std::string_view value) { put(json::quoted(value)); }
  void operator=(const std::string& value) { put(json::quoted(value)); }
  void operator=(const char* value) { put(json::quoted(value)); }
  void operator=(const std::vector<std::string>& values) {
    array([&] {
      for (const std::string& value : values) *this = value;
    });
  }
  std::string take() { return std::move(text_); }

 private:
  void separate() {
    if (!fresh_) text_ += ',';
    fresh_ = false;
  }
  void put(std::string_view value) {
    separate();
    text_ += value;
  }
  template <typename Body>
  void nested(char open, char close, Body& body) {
    separate();
    text_ += open;
    fresh_ = true;
    body();
    text_ += close;
    fresh_ = false;
  }

  std::string text_;
  bool fresh_ = true;  // nothing stands before what comes next
};

void put_memory(Document& out, const MemoryByClass& memory) {
  out.object([&] {
    for (std::size_t i = 0; i < kMemoryClasses; ++i) {
      const auto c = static_cast<MemoryClass>(i);
      out[memory_class_name(c)] = memory[c];
    }
  });
}

void put_nodes(Document& out, const Plan& plan) {
  out["nodes"].array([&] {
    for (const PlanNode& node : plan.nodes) {
      out.object([&] {
        out["name"] = node.name;
        out["op"] = node.op;
        out["backward"] = node.backward;
        out["recomputed"] = node.recomputed;
        out["flops"] = node.flops;
        out["bytes"] = node.bytes;
        out["scratch_bytes"] = node.scratch_bytes;
        out["whole_scratch_bytes"] = node.whole_scratch_bytes;
        out["live_bytes"] = node.live_bytes;
        out["dispatches"] = node.steps;
        out["choices"].array([&] {
          for (const PlanChoice& choice : node.choices) {
            out.object([&] {
              out["key"] = choice.key;
              out["variant"] = choice.variant;
              out["why"] = choice.why;
            });
          }
        });
        out["parts"] = node.parts;
      });
    }
  });
}

void put_values(Document& out, const Plan& plan) {
  std::set<std::uint32_t> saved;
  for (const SavedValue& value : plan.saved) saved.insert(value.value);
  out["values"].array([&] {
    for (const PlanValue& value : plan.values) {
      out.object([&] {
        out["name"] = value.name;
        out["class"] = memory_class_name(value.memory_class);
        out["space"] = space_name(value.space);
        out["offset"] = value.offset;
        out["bytes"] = value.bytes;
        out["first"] = value.first;
        out["last"] = value.last;
        if (value.storage != kNoIndex) out["storage"] = value.storage;
        out["saved"] = saved.contains(value.value);
      });
    }
  });
}

void put_saved(Document& out, const Plan& plan) {
  out["saved"].array([&] {
    for (const SavedValue& value : plan.saved) {
      out.object([&] {
        out["name"] = value.name;
        out["bytes"] = value.bytes;
        out["producer"] = value.producer;
        out["readers"] = value.readers;
      });
    }
  });
  out["recomputed"].array([&] {
    for (const RecomputedValue& value : plan.recomputed) {
      out.object([&] {
        out["name"] = value.name;
        out["bytes"] = value.bytes;
        out["producer"] = value.producer;
        out["flops"] = value.flops;
      });
    }
  });
}

void put_layers(Document& out, const Plan& plan) {
  out["layers"].array([&] {
    for (const LayerCost& row : layer_costs(plan)) {
      out.object([&] {
        out["name"] = row.name;
        out["op"] = row.op;
        out["saved_bytes"] = row.saved_bytes;
        out["forward_flops"] = row.forward_flops;
        out["backward_flops"] = row.backward_flops;
        out["bytes_moved"] = row.moved_bytes;
        out["recomputed"] = row.recomputed;
      });
    }
  });
}

void put_plan(Document& out, const TitledPlan& titled, const gpu::Quirks& quirks) {
  const Plan& plan = titled.plan;
  const PlanWork work = work_of(plan);
  out.object([&] {
    out["title"] = titled.title;
    put_memory(out["memory"], plan.memory);
    out["total"] = plan.memory.total();
    out["arena"] = plan.transient_bytes;
    out["lower_bound"] = plan.lower_bound;
    out["flops"] = plan.flops;
    out["recomputed_flops"] = plan.recomputed_flops;
    out["bytes_moved"] = work.moved;
    out["dispatches"] = work.dispatches;
    out["barriers"] = plan.barriers;
    out["submissions_at_most"] = list_ends(plan, quirks).size();
    out["kernels"] = plan.kernels.size();
    if (plan.peak_node != kNoIndex) {
      out["peak_node"] = plan.nodes[plan.peak_node].name;
      out["peak"] = plan.peak_node;
    }
    out["merged"].array([&] {
      for (const Step& step : plan.steps) {
        if (step.merged < 2) continue;
        out.object([&] {
          out["op"] = plan.nodes[step.node].op;
          out["tensors"] = step.merged;
        });
      }
    });
    put_saved(out, plan);
    put_layers(out, plan);
    put_nodes(out, plan);
    put_values(out, plan);
  });
}

void put_precision(Document& out, const passes::PrecisionReport& report) {
  out["precision"].object([&] {
    out["storage"] = dtype_name(report.storage);
    out["ops"].array([&] {
      for (const passes::PrecisionRow& row : report.rows) {
        out.object([&] {
          out["op"] = row.op;
          out["backward"] = row.backward;
          out["storage"] = dtype_name(row.storage);
          out["values"] = row.values;
          out["bytes"] = row.bytes;
          out["reason"] = row.reason;
        });
      }
    });
  });
}

void put_products(Document& out, const gpu::Target& target) {
  constexpr const char* kAsked[] = {"highest", "high", "medium"};
  const Rounding rounding = rounding_of(target);
  out["matmul_precision"].object([&] {
    out["asked"] = kAsked[static_cast<std::size_t>(target.policy.matmul_precision)];
    out["rounds"] = rounding.rounds;
    out["to_f16"] = rounding.to_f16;
    out["to_bf16"] = rounding.to_bf16;
    out["to_8_bits"] = rounding.to_8_bits;
  });
}

void put_curve(Document& out, const train::TrainingCurve& curve) {
  out["curve"].object([&] {
    out["flops"] = curve.flops;
    out["fixed_bytes"] = curve.fixed_bytes;
    out["points"].array([&] {
      for (const RecomputePoint& point : curve.points) {
        out.object([&] {
          out["bytes"] = curve.fixed_bytes + point.peak;
          out["arena"] = point.peak;
          out["extra_flops"] = point.extra_flops;
          out["extra_bytes_moved"] = point.extra_bytes;
          out["recomputed"] = point.recomputed;
        });
      }
    });
  });
}

void put_seconds(Document& out, const TimeEstimate& time) {
  out["seconds"] = time.seconds();
  out["arithmetic_s"] = time.arithmetic;
  out["memory_s"] = time.memory;
  out["dispatching_s"] = time.dispatching;
}

void put_time(Document& out, const PlanForecast& forecast) {
  out["time"].object([&] {
    out["device"] = forecast.speed->device;
    out["figures"] = forecast.speed->measured ? "measured" : "public";
    out["error"] = error_text(*forecast.speed);
    put_seconds(out, forecast.time.all);
    out["nodes"].array([&] {
      for (const ModelTime::Node& node : forecast.time.nodes) {
        out.object([&] {
          out["name"] = node.name;
          out["op"] = node.op;
          put_seconds(out, node.time);
        });
      }
    });
  });
}

void put_passes(Document& out, const std::vector<passes::PassNote>& notes) {
  out["passes"].array([&] {
    for (const passes::PassNote& note : notes) {
      out.object([&] {
        out["pass"] = note.pass;
        out["nodes_before"] = note.nodes_before;
        out["nodes_after"] = note.nodes_after;
        out["changes"].object([&] {
          for (const auto& [op, count] : note.changes) out[op_name(op)] = count;
        });
      });
    }
  });
}

}  // namespace

std::string plan_report(const PlanForecast& forecast, const gpu::Target& target) {
  Document out;
  out.object([&] {
    out["device"] = target.caps.device_name;
    put_memory(out["memory"], forecast.memory);
    out["total"] = forecast.memory.total();
    put_precision(out, forecast.precision);
    put_products(out, target);
    if (forecast.training) {
      out["micro_batch"] = forecast.micro_batch;
      out["accumulates"] = forecast.accumulates;
      put_curve(out, forecast.curve);
    }
    if (forecast.choice.budget != 0) {
      out["budget"].object([&] {
        out["bytes"] = forecast.choice.budget;
        out["unconstrained"] = forecast.choice.unconstrained;
        out["reasons"] = forecast.choice.reasons;
      });
    }
    if (const WorkerForecast& w = forecast.workers; w.workers > 1) {
      out["workers"].object([&] {
        out["number"] = w.workers;
        out["micro_batches"] = w.slots;
        out["most_of_one"] = w.most;
        out["host_bytes"] = w.host_bytes;
        out["bytes_sent"] = w.sent_bytes;
      });
    }
    if (forecast.speed) put_time(out, forecast);
    if (forecast.passes) put_passes(out, *forecast.passes);
    out["plans"].array([&] {
      for (const TitledPlan& plan : forecast.plans) put_plan(out, plan, target.quirks);
    });
  });
  return out.take();
}

}  // namespace graft
