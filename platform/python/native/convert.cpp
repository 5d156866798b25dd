// The module graft._convert: conversion, apart from _graft so that libonnx is loaded by those only who convert.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <map>
#include <tuple>

#include "graft/convert.hpp"

namespace graft::python {
namespace {

namespace py = pybind11;

/// (status, message, report as text, report as JSON); a status of 0: the file was written.
py::tuple convert_file(const std::string& path, const std::string& output,
                       const std::map<std::string, std::int64_t>& bindings, const std::vector<std::string>& constants,
                       const std::vector<std::string>& parameters, const std::string& quantize, bool expand,
                       const std::string& imatrix) {
  ConvertOptions options = {.constants = constants, .parameters = parameters, .quantize = quantize, .expand = expand};
  options.imatrix = imatrix;
  for (const auto& [name, size] : bindings) options.bindings.push_back({name, size});
  ConvertReport report;
  const Status done = [&] {
    const py::gil_scoped_release released;
    return convert(path, output, options, &report);
  }();
  return py::make_tuple(static_cast<int>(done.code()), done.message(), report.text, report.json);
}

/// (status, message)
py::tuple convert_adapter_file(const std::string& path, const std::string& base, const std::string& output) {
  const Status done = [&] {
    const py::gil_scoped_release released;
    return convert_adapter(path, base, output);
  }();
  return py::make_tuple(static_cast<int>(done.code()), done.message());
}

/// (status, message, report as JSON)
py::tuple export_file(const std::string& path, const std::string& output, const std::string& format,
                      const std::string& dtype, const std::string& source, bool allow_non_finite,
                      const std::string& imatrix) {
  ConvertReport report;
  const Status done = [&] {
    const py::gil_scoped_release released;
    return export_model(path, output, {format, dtype, source, allow_non_finite, imatrix}, &report);
  }();
  return py::make_tuple(static_cast<int>(done.code()), done.message(), report.json);
}

/// (status, message); matrices are (name, sums of squares, tokens).
py::tuple write_imatrix_file(const std::string& path,
                             const std::vector<std::tuple<std::string, std::vector<double>, std::uint64_t>>& given,
                             std::uint32_t context, std::uint64_t chunks, const std::string& output,
                             const std::vector<std::string>& datasets) {
  std::vector<ImportanceMatrix> matrices;
  for (const auto& [name, sums, tokens] : given) matrices.push_back({name, sums, tokens});
  graft_importance_info info = {};
  info.context = context;
  info.chunks = chunks;
  const Status done = [&] {
    const py::gil_scoped_release released;
    return write_imatrix(path, matrices, info, output, datasets);
  }();
  return py::make_tuple(static_cast<int>(done.code()), done.message());
}

}  // namespace
}  // namespace graft::python

PYBIND11_MODULE(_convert, module) {
  module.doc() = "graft's converter, for the package graft alone.";
  module.def("convert", graft::python::convert_file);
  module.def("convert_adapter", graft::python::convert_adapter_file);
  module.def("export_model", graft::python::export_file);
  module.def("write_imatrix", graft::python::write_imatrix_file);
}
