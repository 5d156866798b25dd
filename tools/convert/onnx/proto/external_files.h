// Tensors of ONNX files whose contents lie in a file beside them.
#pragma once

#include <onnx/onnx_pb.h>

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "platform/os/file.h"
#include "tools/convert/onnx/proto/external_data.h"

namespace graft::convert {

ExternalData external_data_of(const onnx::TensorProto& tensor);

/// Gathers what lies beside an ONNX file that is being written: FILE.onnx.data.
class ExternalWriter {
 public:
  using Write = std::function<Status(os::File&)>;

  explicit ExternalWriter(const std::string& onnx_path) : path_(onnx_path + ".data") {}

  const std::string& path() const { return path_; }
  bool empty() const { return parts_.empty(); }
  bool has(const onnx::TensorProto& tensor) const { return placed_.contains(&tensor); }
  /// Data files, as they were named, that tensors lay in before.
  const std::set<std::string>& replaced() const { return replaced_; }
  /// The tensor's contents are the `bytes` that write() appends.
  void add(onnx::TensorProto& tensor, std::uint64_t bytes, Write write);
  std::uint64_t bytes() const { return end_; }
  void clear() {
    parts_.clear();
    placed_.clear();
    end_ = 0;
  }
  /// Writes the file, if there is anything in it.
  Status finish(os::FileSystem& files) const;

 private:
  struct Part {
    std::uint64_t offset = 0, bytes = 0;
    Write write;
  };
  std::string path_;
  std::vector<Part> parts_;
  std::set<const onnx::TensorProto*> placed_;
  std::set<std::string> replaced_;
  std::uint64_t end_ = 0;
};

/// Writes the data file, if there is anything in it, then the model, piece after piece. invalid, before anything is
/// written: the model would have more than 2 GiB, where protobuf ends.
Status write_model(os::FileSystem& files, const std::string& path, const onnx::ModelProto& model,
                   const ExternalWriter& external);

}  // namespace graft::convert
