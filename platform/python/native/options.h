// Members of options that pybind11 has no form of its own for.
#pragma once

#include <pybind11/stl.h>

#include <map>

#include "platform/python/native/handles.h"

namespace graft::python {

/// An enumeration as a number; the package knows the words.
template <typename Class, typename Options, typename Enum>
void number(Class& bound, const char* name, Enum Options::*member) {
  bound.def_property(
      name, [member](const Options& options) { return static_cast<int>(options.*member); },
      [member](Options& options, int value) { options.*member = static_cast<Enum>(value); });
}

/// {"batch": 32}
template <typename Class, typename Options>
void sizes(Class& bound, const char* name, std::vector<Binding> Options::*member) {
  bound.def_property(
      name,
      [member](const Options& options) {
        std::map<std::string, std::int64_t> all;
        for (const Binding& binding : options.*member) all[binding.name] = binding.size;
        return all;
      },
      [member](Options& options, const std::map<std::string, std::int64_t>& all) {
        (options.*member).clear();
        for (const auto& [dimension, size] : all) (options.*member).push_back({dimension, size});
      });
}

}  // namespace graft::python
