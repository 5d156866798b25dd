// Plans in C++: what a session or a trainer would do, before anything runs. Include it beside graft/graft.hpp.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "graft/graft.hpp"
#include "graft/plan.h"

namespace graft {
inline namespace v0 {

/// See graft/plan.h. Movable; texts that it gives live as long as it does.
class Plan {
 public:
  /// As graft_plan_create(); what the options point to is read within the call.
  static Result<Plan> create(Model& model, graft_plan_options options = {}) {
    options.struct_size = sizeof options;
    graft_context* const context = model.context();
    graft_plan* made = nullptr;
    const graft_status code = graft_plan_create(model.get(), &options, &made);
    return detail::made(code, context, Plan(made, context));
  }
  /// Bytes by class, FLOPs, and what was chosen to keep to a budget.
  Result<graft_forecast> forecast() const { return filled<graft_forecast>(graft_plan_forecast); }
  /// What a plan says beside its forecast.
  Result<graft_plan_info> info() const { return filled<graft_plan_info>(graft_plan_describe); }
  /// All of it as JSON, as docs/reference/formats.md has it.
  Result<std::string> report() {
    const char* json = nullptr;
    Status told = detail::to_status(graft_plan_report(handle_.get(), &json), context_);
    if (!told.ok()) return told;
    return std::string(json);
  }
  /// Memory against work, where graft_plan_options::curve asked for it.
  Result<std::span<const graft_plan_point>> curve() const {
    const graft_plan_point* points = nullptr;
    std::size_t count = 0;
    Status told = detail::to_status(graft_plan_curve(handle_.get(), &points, &count), context_);
    if (!told.ok()) return told;
    return std::span(points, count);
  }
  /// What runs, in order.
  std::vector<graft_plan_node> nodes() const {
    return all<graft_plan_node>(graft_plan_node_count(handle_.get()), graft_plan_node_at);
  }
  /// Values, and where in memory they lie while which nodes run.
  std::vector<graft_plan_value> values() const {
    return all<graft_plan_value>(graft_plan_value_count(handle_.get()), graft_plan_value_at);
  }
  graft_plan* get() const { return handle_.get(); }  ///< for what only the C ABI has

 private:
  Plan(graft_plan* handle, graft_context* context) : handle_(handle), context_(context) {}
  template <typename Info, typename Fill>
  Result<Info> filled(Fill fill) const {
    auto info = detail::sized<Info>();
    Status got = detail::to_status(fill(handle_.get(), &info), context_);
    if (!got.ok()) return got;
    return info;
  }
  template <typename Item, typename At>
  std::vector<Item> all(std::size_t count, At at) const {
    std::vector<Item> items;
    auto item = detail::sized<Item>();
    for (std::size_t i = 0; i < count && at(handle_.get(), i, &item) == GRAFT_OK; ++i) items.push_back(item);
    return items;
  }

  detail::Handle<graft_plan, graft_plan_destroy> handle_;
  graft_context* context_;
};

}  // namespace v0
}  // namespace graft
