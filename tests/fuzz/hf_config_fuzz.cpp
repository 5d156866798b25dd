// config.json of language models: the description, and the graph up to the first tensor that is not there.
#include <cstdint>
#include <string_view>

#include "tests/fuzz/mutate/mutate.h"
#include "tools/convert/decoder/decoder_graph.h"
#include "tools/convert/huggingface/hf_config.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace graft::convert;
  const auto json = parse_json({reinterpret_cast<const char*>(data), size});
  if (!json.ok()) return 0;
  const auto model = read_hf_config(*json);
  if (!model.ok()) return 0;
  const SourceTensors none;
  graft::Model out;
  DecoderWeights weights(none, *model->names, *model->names, out);
  (void)build_decoder(model->spec, weights, out.graph);
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed) {
  return graft::fuzz::mutate_with(graft::fuzz::mutate_json, data, size, max_size, seed);
}
