// The module graft._graft: graft.hpp for Python. It takes arrays that are ready and words as numbers; the package
// around it checks and converts what users give, and holds the documentation.
#include "platform/python/native/handles.h"

PYBIND11_MODULE(_graft, module) {
  module.doc() = "graft's C++ interface, for the package graft alone.";
  module.attr("__version__") = graft_version();
  graft::python::add_options(module);
  graft::python::add_context(module);
  graft::python::add_session(module);
  graft::python::add_generator(module);
  graft::python::add_trainer(module);
  graft::python::add_data(module);
  graft::python::add_delta(module);
  graft::python::add_inspection(module);
  graft::python::add_group(module);
}
