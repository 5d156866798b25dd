#include "tools/convert/onnx/proto/onnx_messages.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

namespace graft::convert {
namespace {

using google::protobuf::internal::WireFormatLite;

enum class Message { none, leaf, model, graph, node, attribute, function, training };

/// What stands in this field, by the numbers of onnx.proto; none where it is no message or a small one.
Message part(Message whole, int field) {
  switch (whole) {
    case Message::model:
      if (field == 7) return Message::graph;
      if (field == 20) return Message::training;
      return field == 25 ? Message::function : field == 8 || field == 14 ? Message::leaf : Message::none;
    case Message::graph:
      if (field == 1) return Message::node;
      return field == 5 || (field >= 11 && field <= 15) ? Message::leaf : Message::none;
    case Message::node: return field == 5 ? Message::attribute : Message::none;
    case Message::attribute:
      if (field == 6 || field == 11) return Message::graph;
      return field == 5 || field == 10 || field == 14 || field == 15 || field == 22 || field == 23 ? Message::leaf
                                                                                                   : Message::none;
    case Message::function:
      if (field == 7) return Message::node;
      return field == 11 ? Message::attribute : field == 9 ? Message::leaf : Message::none;
    case Message::training:
      if (field == 1 || field == 2) return Message::graph;
      return field == 3 || field == 4 ? Message::leaf : Message::none;
    case Message::leaf:
    case Message::none: break;
  }
  return Message::none;
}

class Counter {
 public:
  explicit Counter(std::size_t most) : left_(most) {}

  /// False where there are too many, or where the bytes are no protobuf; `full` tells.
  bool walk(google::protobuf::io::CodedInputStream& in, Message message, int depth) {
    while (const std::uint32_t tag = in.ReadTag()) {
      const Message child = WireFormatLite::GetTagWireType(tag) == WireFormatLite::WIRETYPE_LENGTH_DELIMITED
                                ? part(message, WireFormatLite::GetTagFieldNumber(tag))
                                : Message::none;
      if (child == Message::none) {
        if (!WireFormatLite::SkipField(&in, tag)) return false;
        continue;
      }
      full = left_ == 0;
      if (full || depth == 0) return false;
      --left_;
      int size = 0;
      if (!in.ReadVarintSizeAsInt(&size)) return false;
      if (child == Message::leaf) {
        if (!in.Skip(size)) return false;
        continue;
      }
      const auto limit = in.PushLimit(size);
      if (!walk(in, child, depth - 1)) return false;
      in.PopLimit(limit);
    }
    return true;
  }

  bool full = false;

 private:
  std::size_t left_;
};

}  // namespace

Status check_message_count(std::span<const std::byte> bytes) {
  const std::size_t most = kFreeMessages + bytes.size() / kBytesPerMessage;
  google::protobuf::io::CodedInputStream in(reinterpret_cast<const std::uint8_t*>(bytes.data()),
                                            static_cast<int>(bytes.size()));
  Counter counter(most);
  (void)counter.walk(in, Message::model, 64);
  if (!counter.full) return ok_status();
  return corrupt("The file of ", bytes_text(bytes.size()), " holds more than ", most,
                 " nodes, attributes, tensors and values: no network has that many for its size.");
}

}  // namespace graft::convert
