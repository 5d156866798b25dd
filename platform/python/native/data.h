// Data sets and loaders as Python holds them.
#pragma once

#include <pybind11/numpy.h>

#include "graft/evaluate.hpp"
#include "graft/gate.hpp"
#include "platform/python/native/handles.h"

namespace graft::python {

/// What a data set needs beside its context: the arrays that it reads, or the function that it calls.
struct DataParent {
  std::shared_ptr<ContextHandle> context;
  std::shared_ptr<Kept> kept;
};

using DataHandle = Owned<graft::DataSet, DataParent>;
using LoaderHandle = Owned<graft::Loader, DataHandle>;

}  // namespace graft::python
