// What an app does beside running and training, by the C++ headers: models wherever they are, conversations,
// parameters. usage: app_cpp MODEL FOLDER; FOLDER is there and empty
#include <graft/delta.hpp>
#include <graft/external.hpp>
#include <graft/graft.hpp>
#include <graft/plan.hpp>
#include <graft/vulkan.hpp>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

namespace {

int fail(const char* what, const graft::Status& status) {
  std::fprintf(stderr, "%s: %s\n", what, status.message().c_str());
  return 1;
}

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// A model from memory and from a reader; adapters from an open file.
int sources(graft::Context& context, const std::string& path, const std::string& folder) {
  const std::string bytes = contents(path);
  auto copied = context.load(graft::Source::copy(std::as_bytes(std::span(bytes)), "a copy"));
  if (!copied.ok()) return fail("copied", copied.status());
  auto damaged = context.load(graft::Source::copy(std::as_bytes(std::span(bytes).first(100)), "a part"));
  if (damaged.ok() || damaged.status().code() != GRAFT_CORRUPT) return fail("a part", damaged.status());
  auto read = context.load(graft::Source::reader(
      [&](std::uint64_t offset, std::span<std::byte> out) {
        std::memcpy(out.data(), bytes.data() + offset, out.size());
        return true;
      },
      bytes.size()));
  if (!read.ok()) return fail("read", read.status());
  const std::string adapters = folder + "/adapters.graft";
  if (auto added = copied->add_adapters("r=2"); !added.ok()) return fail("add adapters", added);
  if (auto saved = copied->save_adapters(adapters); !saved.ok()) return fail("save adapters", saved);
  std::FILE* file = std::fopen(adapters.c_str(), "rb");
  if (file == nullptr) return 1;
  auto loaded = read->load_adapters(graft::Source::descriptor(fileno(file)));
  std::fclose(file);
  if (!loaded.ok()) return fail("load adapters", loaded);
  std::printf("%zu parameters of adapters\n", read->named_parameters().size());
  return read->named_parameters().size() == copied->named_parameters().size() ? 0 : 1;
}

/// What a step would take, before it is taken.
bool is_planned(graft::Model& model) {
  const graft::TrainerOptions training = {.batch = 4};
  auto plan = graft::Plan::create(model, {.training = &training, .curve = true});
  if (!plan.ok()) return false;
  auto info = plan->describe();
  auto forecast = plan->forecast();
  auto report = plan->report();
  auto curve = plan->curve();
  if (!info.ok() || !forecast.ok() || !report.ok() || !curve.ok()) return false;
  std::printf("%zu nodes, %zu values, %llu bytes, %zu points\n", plan->nodes().size(), plan->values().size(),
              static_cast<unsigned long long>(forecast->total), curve->size());
  return info->dispatches > 0 && report->front() == '{' && plan->nodes().size() > info->peak_node;
}

/// A turn of a conversation, where the model is a language model; true where it is none.
bool says_so(graft::Model& model) {
  auto tokenizer = model.tokenizer();
  if (!tokenizer.ok()) return tokenizer.status().code() == GRAFT_NOT_FOUND;
  auto generator = model.generator();
  const std::vector<graft::ChatMessage> messages = {{"user", "hi"}};
  auto prompt = tokenizer->chat_encode(messages, {.format = "chatml"});
  auto text = tokenizer->chat_render(messages, {.format = "chatml"});
  if (!generator.ok() || !prompt.ok() || !text.ok()) return false;
  std::vector<std::int32_t> tokens;
  auto said = generator->generate(*prompt, {.max_tokens = 3, .on_token = [&](std::int32_t token, auto) {
                                              tokens.push_back(token);
                                              return true;
                                            }});
  if (!said.ok() || said->tokens != tokens || said->prompt_tokens != prompt->size()) return false;
  auto spelled = tokenizer->decode(*prompt, {.spell_special = true});
  auto again = tokenizer->encode(*text, {.bare = true, .parse_special = true});
  if (!spelled.ok() || *spelled != *text || !again.ok() || *again != *prompt) return false;
  auto embedder = model.embedder({.pooling = GRAFT_POOLING_LAST, .normalize = true, .batch = 2});
  if (!embedder.ok()) return false;
  const std::vector<std::vector<std::int32_t>> both = {*prompt, *again};
  auto vectors = embedder->embed(both);
  return vectors.ok() && vectors->numbers.size() == 2 * embedder->width() &&
         std::ranges::equal((*vectors)[0], (*vectors)[1]);
}

/// What matters in its matrices; true where the model is no language model.
bool knows_what_matters(graft::Model& model) {
  auto importance = model.importance({.context = 4, .chunks = 2});
  if (!importance.ok()) return model.tokenizer().status().code() == GRAFT_NOT_FOUND;
  const std::vector<std::int32_t> tokens = {1, 2, 3, 4, 5};
  auto waiting = importance->add(tokens);
  if (!waiting.ok() || *waiting != 1) return false;
  auto left = importance->step();
  auto info = importance->describe();
  return left.ok() && *left == 0 && info.ok() && info->chunks == 1 && info->dropped == 1 &&
         importance->matrices().at(0).tokens == 4;
}

/// Several texts at once, whose callbacks outlive the calls that name them; true where the model is no language model.
bool says_several(graft::Model& model) {
  auto generator = model.generator({.sequences = 2});
  if (!generator.ok()) return model.tokenizer().status().code() == GRAFT_NOT_FOUND;
  std::vector<std::vector<std::int32_t>> told(3);
  const std::vector<std::int32_t> prompt = {1, 2};
  for (auto& tokens : told) {
    const auto tell = [&tokens](std::int32_t token, auto) {
      tokens.push_back(token);
      return true;
    };
    if (!generator->submit(prompt, {.max_tokens = 3, .on_token = tell}).ok()) return false;
  }
  if (!generator->drop(2).ok() || generator->drop(2).ok()) return false;
  std::size_t texts = 0;
  for (std::size_t left = 1; left != 0;) {
    auto step = generator->step();
    if (!step.ok()) return false;
    left = *step;
    for (auto one = generator->finished(); one.id != 0; one = generator->finished()) {
      if (!one.text.ok() || one.text->tokens != told[one.id - 1]) return false;
      ++texts;
    }
  }
  return texts == 2 && told[0] == told[2];
}

/// Weights and words by name, of a model and of a trainer.
bool are_read_and_written(graft::Model& model) {
  const std::string name = model.named_parameters().at(0).name;
  auto numbers = model.read(name);
  if (!numbers.ok()) return false;
  for (float& number : *numbers) number *= 0.5f;
  if (!model.write<float>(name, *numbers).ok() || *model.read(name) != *numbers) return false;
  if (!model.set_metadata("app.note", "halved").ok() || model.metadata().at("app.note") != "halved") return false;
  if (!model.remove_metadata("app.note").ok() || model.metadata("app.note").ok()) return false;
  auto trainer = model.trainer({.groups = {{.pattern = "*bias*", .weight_decay = 0}}, .batch = 4});
  if (!trainer.ok() || *trainer->read(name) != *numbers || !trainer->write<float>(name, *numbers).ok()) return false;
  return trainer->set_learning_rate(0.5).ok() && *trainer->learning_rate() == 0.5;
}

/// An input in memory of the app's own, which the device reads where it lies; a device may be unable to, and says so.
bool reads_memory_of_the_app(graft::Model& model) {
  constexpr std::size_t kPage = 65536;
  const graft::TensorInfo input = model.inputs().at(0);
  auto session = model.session({.bindings = {{"batch", 1}}});
  if (!session.ok()) return false;
  std::size_t count = 1;
  for (std::uint32_t i = 1; i < input.rank; ++i) count *= static_cast<std::size_t>(input.dims[i]);
  graft_external_memory memory{};
  memory.kind = GRAFT_EXTERNAL_HOST;
  memory.bytes = (count * sizeof(float) + kPage - 1) / kPage * kPage;
  std::vector<char> room(memory.bytes + kPage);
  std::size_t left = room.size();
  memory.pointer = room.data();
  std::align(kPage, memory.bytes, memory.pointer, left);
  if (auto bound = graft::bind(*session, input.name, memory); !bound.ok()) return bound.code() == GRAFT_UNSUPPORTED;
  std::fill_n(static_cast<float*>(memory.pointer), count, 0.5f);
  if (!session->run().ok()) return false;
  auto there = session->output<float>(model.outputs().at(0).name);
  if (!there.ok()) return false;
  const std::vector<float> by_memory(there->begin(), there->end());
  if (!graft::unbind(*session, input.name).ok()) return false;
  if (!session->set_input<float>(input.name, std::vector<float>(count, 0.5f)).ok() || !session->run().ok())
    return false;
  auto copied = session->output<float>(model.outputs().at(0).name);
  return copied.ok() && std::equal(copied->begin(), copied->end(), by_memory.begin(), by_memory.end());
}

/// A run in a folder, and its snapshots, data sets.
bool is_kept(graft::Context& context, graft::Model& model, const std::string& folder) {
  {
    auto trainer = model.trainer({.batch = 4, .checkpoints = true});
    if (!trainer.ok() || !trainer->open_checkpoint({.folder = folder, .metadata = {{"app", "app_cpp"}}}).ok())
      return false;
    if (!trainer->set_learning_rate(0.01).ok() || !trainer->save_checkpoint("first").ok()) return false;
  }
  auto store = context.open_store(folder, true);
  if (!store.ok() || store->snapshots().size() != 2 || !store->verify().ok()) return false;
  if (!store->tag("first", "best").ok() || !store->untag("first", "first").ok()) return false;
  auto best = store->find("best");
  if (!best.ok() || best->tags != std::vector<std::string>{"best"} || !best->is_head) return false;
  if (*store->metadata("best", "app") != "app_cpp" || store->diff("best", "").value().empty()) return false;
  if (!store->restore("best", model).ok() || !store->branch("best").ok()) return false;
  auto removed = store->prune(1);
  return removed.ok() && removed->removed == 1;
}

/// A client's change, sent as bytes, averaged with itself and put on the model.
bool is_federated(graft::Context& context, const char* path) {
  auto base = context.load(path), client = context.load(path);
  if (!base.ok() || !client.ok()) return false;
  auto bias = client->read("fc2.bias");
  if (!bias.ok()) return false;
  for (float& x : *bias) x += 1;
  if (!client->write<float>("fc2.bias", *bias).ok()) return false;
  auto delta = graft::Delta::make(*base, *client, {.samples = 7, .coding = GRAFT_DELTA_BF16});
  if (!delta.ok() || delta->describe()->samples != 7 || delta->numbers("fc2.bias")->front() != 1) return false;
  const auto sent = delta->bytes().value();
  auto received = graft::Delta::load(context, graft::Source::copy(sent));
  if (!received.ok()) return false;
  auto average = graft::Delta::average(context, {&*delta, &*received});
  return average.ok() && average->describe()->clients == 2 && base->apply(*average, 1).ok() &&
         base->read("fc2.bias").value() == *bias;
}

/// Two epochs of a data set, and one that the program makes itself.
bool learns_from_sets(graft::Context& context, graft::Model& model) {
  auto set = context.open_data("digits:?count=64");
  if (!set.ok() || set->samples() != 64) return false;
  auto loader = set->loader({.epochs = 2});
  auto trainer = model.trainer({.data = &*set});
  if (!loader.ok() || !trainer.ok()) return false;
  std::uint64_t steps = 0;
  for (;; ++steps) {
    auto metrics = trainer->train_next(*loader);
    if (!metrics.ok()) return false;
    if (!*metrics) break;
  }
  const std::vector<graft::Field> fields = set->fields();
  std::size_t count = 1;
  for (const std::int64_t dim : fields.at(0).dims) count *= static_cast<std::size_t>(dim);
  auto made = context.data_from_callback(fields, 8, [count](std::uint64_t index, void* const* out) {
    for (std::size_t i = 0; i < count; ++i) static_cast<float*>(out[0])[i] = static_cast<float>(index) * 0.1f;
    *static_cast<std::int32_t*>(out[1]) = static_cast<std::int32_t>(index);
    return 1;
  });
  if (!made.ok() || !trainer->evaluate(*made).ok()) return false;
  auto batches = made->loader({.in_order = true});
  if (!batches.ok()) return false;
  auto batch = batches->next();
  if (!batch.ok() || batch->samples != 8) return false;
  auto held = context.data_from_memory(fields, {batch->fields[0], batch->fields[1]}, batch->samples);
  return steps == 4 && held.ok() && held->samples() == 8;
}

/// One worker of a group that the program makes: it is alone in it.
bool works_in_a_group(graft::Model& model) {
  const auto exchange = [](void*, std::size_t parts, const void* const* out, const std::size_t* out_bytes,
                           void* const* in, const std::size_t*, std::uint64_t, char*, std::size_t) {
    for (std::size_t i = 0; i < parts; ++i) {
      if (out_bytes[i] > 0) std::memcpy(in[i], out[i], out_bytes[i]);
    }
    return GRAFT_OK;
  };
  const auto leave = [](void*, graft_status, const char*) {};
  graft_group group{};
  group.struct_size = sizeof group;
  group.size = 1;
  group.exchange = exchange;
  group.leave = leave;
  auto trainer = model.trainer({.batch = 8, .micro_batch = 2, .group = &group});
  if (!trainer.ok() || !trainer->join().ok()) return false;
  auto rank = trainer->rank();
  auto share = trainer->share(8);
  return rank.ok() && rank->rank == 0 && rank->size == 1 && share.ok() && share->first == 0 && share->count == 8 &&
         trainer->gather().ok();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  auto context = graft::Context::create();
  if (!context.ok()) {
    fail("context", context.status());
    return 77;  // no device here: skipped
  }
  // vulkan.c lends graft a device; without one there is a sentence.
  const auto lent = graft::create_context(graft_vulkan_device{});
  if (lent.ok() || lent.status().message().empty()) return fail("no device was lent", lent.status());
  if (auto paced = context->set_pace(8, 1); !paced.ok()) return fail("pace", paced);
  auto model = context->load(argv[1]);
  if (!model.ok()) return fail("load", model.status());
  if (!is_planned(*model)) return fail("a plan", graft::Status());
  if (!says_so(*model)) return fail("conversation", graft::Status());
  if (!says_several(*model)) return fail("several texts", graft::Status());
  if (!knows_what_matters(*model)) return fail("importance", graft::Status());
  if (!are_read_and_written(*model)) return fail("parameters", graft::Status());
  if (!reads_memory_of_the_app(*model)) return fail("memory of the app", graft::Status());
  if (!learns_from_sets(*context, *model)) return fail("data sets", graft::Status());
  if (!works_in_a_group(*model)) return fail("a group", graft::Status());
  if (!is_kept(*context, *model, std::string(argv[2]) + "/kept")) return fail("snapshots", graft::Status());
  if (!is_federated(*context, argv[1])) return fail("deltas", graft::Status());
  return sources(*context, argv[1], argv[2]);
}
