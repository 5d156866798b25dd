#include "tools/convert/onnx/proto/external_files.h"

#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <filesystem>
#include <limits>

#include "platform/base/checked.h"
#include "platform/os/atomic_write.h"
#include "tools/convert/onnx/proto/onnx_uses.h"

namespace graft::convert {
namespace {

class FileStream final : public google::protobuf::io::CopyingOutputStream {
 public:
  explicit FileStream(os::File& file) : file_(file) {}
  bool Write(const void* buffer, int size) override {
    status_ = file_.append({static_cast<const std::byte*>(buffer), static_cast<std::size_t>(size)});
    return status_.ok();
  }
  const Status& status() const { return status_; }

 private:
  os::File& file_;
  Status status_;
};

}  // namespace

Status write_model(os::FileSystem& files, const std::string& path, const onnx::ModelProto& model,
                   const ExternalWriter& external) {
  if (model.ByteSizeLong() > std::numeric_limits<std::int32_t>::max()) {
    return invalid("The ONNX file would be larger than 2 GiB.");
  }
  GRAFT_TRY(external.finish(files));
  return os::atomic_write_file(files, path, [&](os::File& file) -> Status {
    FileStream stream(file);
    google::protobuf::io::CopyingOutputStreamAdaptor adaptor(&stream, 1 << 20);
    const bool done = model.SerializeToZeroCopyStream(&adaptor) && adaptor.Flush();
    GRAFT_TRY(Status(stream.status()));
    return done ? ok_status() : error(Code::internal, "The ONNX file could not be put together.");
  });
}

ExternalData external_data_of(const onnx::TensorProto& tensor) {
  ExternalData data;
  for (const auto& entry : tensor.external_data()) {
    if (entry.key() == "location") data.location = entry.value();
    if (entry.key() == "offset") data.offset = entry.value();
    if (entry.key() == "length") data.length = entry.value();
    // A checksum is of the whole file, and is not compared.
    const bool known = is_one_of(entry.key(), {"location", "offset", "length", "checksum"});
    if (!known) data.unknown = entry.key();
  }
  return data;
}

void ExternalWriter::add(onnx::TensorProto& tensor, std::uint64_t bytes, Write write) {
  constexpr std::uint64_t kPage = 4096, kLine = 64;  // large ones can be mapped
  if (tensor.data_location() == onnx::TensorProto::EXTERNAL) replaced_.insert(external_data_of(tensor).location);
  placed_.insert(&tensor);
  Part& part = parts_.emplace_back();
  part.offset = align_up(end_, bytes >= kPage ? kPage : kLine);
  part.bytes = bytes;
  part.write = std::move(write);
  end_ = part.offset + bytes;
  tensor.clear_raw_data();
  tensor.clear_float_data();
  tensor.clear_double_data();
  tensor.clear_int32_data();
  tensor.clear_external_data();
  tensor.set_data_location(onnx::TensorProto::EXTERNAL);
  const auto say = [&](const char* key, std::string value) {
    auto& entry = *tensor.add_external_data();
    entry.set_key(key);
    entry.set_value(std::move(value));
  };
  say("location", std::filesystem::path(path_).filename().string());
  say("offset", std::to_string(part.offset));
  say("length", std::to_string(bytes));
}

Status ExternalWriter::finish(os::FileSystem& files) const {
  if (empty()) return ok_status();
  return os::atomic_write_file(files, path_, [&](os::File& file) -> Status {
    std::uint64_t at = 0;
    for (const Part& part : parts_) {
      const std::vector<std::byte> gap(static_cast<std::size_t>(part.offset - at));
      if (!gap.empty()) GRAFT_TRY(file.append(gap));
      GRAFT_TRY(part.write(file));
      at = part.offset + part.bytes;
      GRAFT_TRY_ASSIGN(const std::uint64_t size, file.size());
      if (size != at) return error(Code::internal, "A tensor has ", size, " bytes of data before it, not ", at, ".");
    }
    return ok_status();
  });
}

}  // namespace graft::convert
