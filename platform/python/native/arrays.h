// Tensors as numpy arrays.
#pragma once

#include <pybind11/numpy.h>

#include <cstring>
#include <string>
#include <vector>

#include "graft/graft.hpp"

namespace graft::python {

namespace py = pybind11;

/// As numpy calls it; "bool", which graft keeps in words, and "uint16" for bfloat16, which numpy does not have.
inline const char* dtype_name(graft_dtype dtype) {
  switch (dtype) {
    case GRAFT_F32: return "float32";
    case GRAFT_I32: return "int32";
    case GRAFT_BOOL32: return "bool";
    case GRAFT_U8: return "uint8";
    case GRAFT_I8: return "int8";
    case GRAFT_F16: return "float16";
    case GRAFT_BF16: return "uint16";
  }
  return "";
}

/// A fresh array of a tensor's shape; numbers of type bool are int32.
inline py::array array_of(const TensorInfo& info) {
  return py::array(py::dtype(info.dtype == GRAFT_F32 ? "float32" : "int32"),
                   std::vector<py::ssize_t>(info.dims, info.dims + info.rank));
}

/// What array_of() gave, as its caller sees it.
inline py::object finished(const TensorInfo& info, py::array array) {
  if (info.dtype != GRAFT_BOOL32) return array;
  return array.attr("astype")("bool");
}

/// (name, dtype, shape)
inline py::tuple described(const TensorInfo& info, const py::tuple& shape) {
  return py::make_tuple(info.name, dtype_name(info.dtype), shape);
}

inline py::tuple shape_of(const TensorInfo& info) {
  py::tuple shape(info.rank);
  for (std::uint32_t axis = 0; axis < info.rank; ++axis) shape[axis] = py::int_(info.dims[axis]);
  return shape;
}

/// A weight that `read(object, data, bytes, info)` fills in.
template <typename Handle, typename Read>
py::object weight(Handle& handle, Read&& read) {
  TensorInfo info{};
  const auto ask = [&](void* data, std::size_t bytes) {
    handle.tell([&](auto& object) {
      return detail::to_status(read(object.get(), data, bytes, &info), handle.context()->context().get());
    });
  };
  ask(nullptr, 0);
  py::array array = array_of(info);
  ask(array.mutable_data(), static_cast<std::size_t>(array.nbytes()));
  return finished(info, std::move(array));
}

inline std::span<const std::byte> bytes_of(const py::array& array) {
  return detail::bytes_at(array.data(), static_cast<std::size_t>(array.nbytes()));
}

/// An array of graft's, which `get(data, bytes, info)` gives in a call under the context's lock: copied, since the next
/// call may overwrite it.
template <typename Handle, typename Get>
py::object copied(Handle& handle, Get&& get) {
  TensorInfo info{};
  const auto status_of = [&](graft_status code) { return detail::to_status(code, handle.context()->context().get()); };
  handle.tell([&](auto& object) { return status_of(get(object.get(), nullptr, nullptr, &info)); });
  py::array array = array_of(info);
  void* to = array.mutable_data();
  const auto room = static_cast<std::size_t>(array.nbytes());
  handle.tell([&](auto& object) {
    const void* data = nullptr;
    std::size_t bytes = 0;
    Status got = status_of(get(object.get(), &data, &bytes, nullptr));
    if (got.ok() && bytes != room) return Status(GRAFT_INTERNAL, "A tensor has changed its size.");
    if (got.ok() && bytes != 0) std::memcpy(to, data, bytes);
    return got;
  });
  return finished(info, std::move(array));
}

}  // namespace graft::python
