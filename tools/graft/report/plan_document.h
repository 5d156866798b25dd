// What graft_plan_report() gives, as commands read it; docs/reference/formats.md has its members.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

namespace graft::cli {

using PlanDocument = nlohmann::ordered_json;  ///< all of it, or a part

inline std::uint64_t count_in(const PlanDocument& part, const char* name) { return part.at(name).get<std::uint64_t>(); }
inline double number_in(const PlanDocument& part, const char* name) { return part.at(name).get<double>(); }
inline bool flag_in(const PlanDocument& part, const char* name) { return part.at(name).get<bool>(); }
inline const std::string& text_in(const PlanDocument& part, const char* name) {
  return part.at(name).get_ref<const std::string&>();
}

}  // namespace graft::cli
