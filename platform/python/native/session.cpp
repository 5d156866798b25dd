// Sessions, generators and tokenizers.
#include <pybind11/stl.h>

#include <map>

#include "platform/python/native/arrays.h"
#include "platform/python/native/handles.h"

namespace graft::python {
namespace {

/// The array is contiguous and of the input's dtype and size.
void set_input(SessionHandle& self, const std::string& name, const py::array& array) {
  self.tell([&](auto& session) { return session.set_input(name, bytes_of(array)); });
}

py::object output(SessionHandle& self, const std::string& name) {
  return copied(self, [&](auto* handle, const void** data, std::size_t* bytes, TensorInfo* info) {
    return graft_session_output(handle, name.c_str(), data, bytes, info);
  });
}

Result<std::string> text_of(Generator& generator, const std::string& prompt, const GenerateOptions& options) {
  return generator.generate(prompt, options);
}
Result<std::string> text_of(Generator& generator, const std::vector<std::int32_t>& prompt,
                            const GenerateOptions& options) {
  auto made = generator.generate(std::span<const std::int32_t>(prompt), options);
  if (!made.ok()) return made.status();
  return std::move(made->text);
}

/// `prompt`: text or tokens. `on_text` gets bytes, and ends the text by False; what it raises ends the text and is
/// raised again.
template <typename Prompt>
py::bytes generate(GeneratorHandle& self, const Prompt& prompt, GenerateOptions options, const py::object& on_text,
                   const py::object& on_token) {
  // Also without a callback: handlers of signals run between two tokens.
  options.on_text = [&](std::string_view piece) {
    const py::gil_scoped_acquire acquired;
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
    return on_text.is_none() || !on_text(py::bytes(piece.data(), piece.size())).is(py::bool_(false));
  };
  if (!on_token.is_none()) {
    options.on_token = [&](std::int32_t token, std::span<const float> logits) {
      const py::gil_scoped_acquire acquired;
      const py::array_t<float> scores(static_cast<py::ssize_t>(logits.size()), logits.data());
      return !on_token(token, scores).is(py::bool_(false));
    };
  }
  return py::bytes(self.ask([&](auto& generator) { return text_of(generator, prompt, options); }));
}

Result<std::vector<Generated>> texts_of(Generator& generator, const std::vector<std::vector<std::int32_t>>& prompts,
                                        const GenerateOptions& options) {
  std::map<std::uint64_t, std::size_t> places;
  std::vector<Generated> out(prompts.size());
  Status failed;
  const auto fail = [&](Status why) {
    if (failed.ok()) failed = std::move(why);
    for (const auto& [id, place] : places) static_cast<void>(generator.drop(id));
    places.clear();
  };
  for (std::size_t i = 0; i < prompts.size() && failed.ok(); ++i) {
    auto id = generator.submit(std::span<const std::int32_t>(prompts[i]), options);
    if (id.ok()) {
      places[*id] = i;
    } else {
      fail(id.status());
    }
  }
  while (!places.empty()) {
    if (const auto left = generator.step(); !left.ok()) fail(left.status());
    for (auto one = generator.finished(); one.id != 0; one = generator.finished()) {
      if (!one.text.ok()) {
        fail(one.text.status());
      } else if (const auto place = places.find(one.id); place != places.end()) {
        out[place->second] = std::move(*one.text);
        places.erase(place);
      }
    }
  }
  if (!failed.ok()) return failed;
  return out;
}

py::dict told(const Generated& found);

/// What each prompt of tokens gives, several at once.
py::list generate_many(GeneratorHandle& self, const std::vector<std::vector<std::int32_t>>& prompts,
                       GenerateOptions options) {
  std::optional<py::error_already_set> raised;
  options.on_text = [&](std::string_view) {  // Ctrl-C ends the texts
    const py::gil_scoped_acquire acquired;
    if (!raised && PyErr_CheckSignals() != 0) raised.emplace();
    return !raised;
  };
  const auto context = self.context();
  auto made = context->call([&] { return texts_of(*self, prompts, options); });
  if (raised) throw std::move(*raised);
  py::list out;
  for (const Generated& one : value_of(std::move(made))) out.append(told(one));
  return out;
}

/// What the last text was: tokens, why it ended (a number), costs, and its scores where they were asked for.
py::dict last(GeneratorHandle& self) {
  return told(self.ask([](auto& generator) { return generator.last(); }));
}

py::dict told(const Generated& found) {
  py::dict out;
  out["text"] = py::bytes(found.text);
  out["tokens"] = found.tokens;
  out["reason"] = static_cast<int>(found.reason);
  out["prompt_tokens"] = found.prompt_tokens;
  out["cached_tokens"] = found.cached_tokens;
  out["prompt_ms"] = found.prompt_ms;
  out["generated_ms"] = found.generated_ms;
  out["first_token_ms"] = found.first_token_ms;
  out["drafted_tokens"] = found.drafted_tokens;
  out["right_drafts"] = found.right_drafts;
  out["log_probabilities"] = found.log_probabilities;
  const std::size_t beside = found.tokens.empty() ? 0 : found.most_probable.size() / found.tokens.size();
  py::list most;
  for (std::size_t i = 0; i < found.tokens.size() && beside > 0; ++i) {
    py::list place;
    for (std::size_t k = 0; k < beside; ++k) {
      const TokenProbability& one = found.most_probable[i * beside + k];
      place.append(py::make_tuple(one.token, one.log_probability));
    }
    most.append(place);
  }
  out["most_probable"] = most;
  return out;
}

/// Vectors of texts or of tokens as rows of an array.
template <typename Texts>
py::array embed(EmbedderHandle& self, const Texts& texts) {
  const Embeddings made = self.ask([&](auto& embedder) { return embedder.embed(texts); });
  py::array_t<float> rows({texts.size(), made.width});
  std::copy(made.numbers.begin(), made.numbers.end(), rows.mutable_data());
  return rows;
}

/// (name, sums of squares, tokens) of each matrix.
py::list importance_matrices(ImportanceHandle& self) {
  py::list out;
  for (const ImportanceMatrix& one :
       self.ask([](auto& importance) -> Result<std::vector<ImportanceMatrix>> { return importance.matrices(); })) {
    out.append(py::make_tuple(one.name, py::array_t<double>(static_cast<py::ssize_t>(one.sums.size()), one.sums.data()),
                              one.tokens));
  }
  return out;
}

/// (tokens of a chunk, chunks that were computed, that wait, tokens in no chunk)
py::tuple importance_info(ImportanceHandle& self) {
  const graft_importance_info info = self.ask([](auto& importance) { return importance.info(); });
  return py::make_tuple(info.context, info.chunks, info.waiting, info.dropped);
}

void resize(SessionHandle& self, const std::map<std::string, std::int64_t>& sizes) {
  std::vector<Binding> bindings;
  bindings.reserve(sizes.size());
  for (const auto& [name, size] : sizes) bindings.push_back({name, size});
  self.tell([&](auto& session) { return session.resize(bindings); });
}

py::bytes decode(TokenizerHandle& self, const std::vector<std::int32_t>& tokens, bool spell_special, bool continued) {
  Tokenizer::DecodeOptions options;
  options.spell_special = spell_special;
  options.continued = continued;
  return py::bytes(self.ask([&](auto& tokenizer) { return tokenizer.decode(tokens, options); }));
}

/// Messages are (role, text).
std::vector<ChatMessage> conversation(const std::vector<std::pair<std::string, std::string>>& messages) {
  std::vector<ChatMessage> out;
  for (const auto& [role, text] : messages) out.push_back({role, text});
  return out;
}

Tokenizer::ChatOptions chat_options(const std::string& format, bool complete, const std::string& messages,
                                    const std::string& tools, const std::string& documents,
                                    const std::string& variables) {
  Tokenizer::ChatOptions options;
  options.format = format;
  options.complete = complete;
  options.messages = messages;
  options.tools = tools;
  options.documents = documents;
  options.variables = variables;
  return options;
}

std::vector<std::int32_t> encode(TokenizerHandle& self, const std::string& text, bool bare, bool parse_special) {
  Tokenizer::EncodeOptions options;
  options.bare = bare;
  options.parse_special = parse_special;
  return self.ask([&](auto& tokenizer) { return tokenizer.encode(text, options); });
}

}  // namespace

void add_session(py::module_& module) {
  py::class_<SessionHandle, std::shared_ptr<SessionHandle>>(module, "Session")
      .def("set_input", set_input)
      .def("run", [](SessionHandle& self) { self.tell([](auto& session) { return session.run(); }); })
      .def("output", output)
      .def("memory", [](SessionHandle& self) { return self.ask([](auto& session) { return session.memory(); }); })
      .def("resize", resize)
      .def("resume", [](SessionHandle& self) { self.tell([](auto& session) { return session.resume(); }); })
      .def("swap_adapters_bytes",
           [](SessionHandle& self, const py::bytes& file) {
             const std::string_view bytes = file;
             self.tell(
                 [&](auto& s) { return s.swap_adapters(Source::copy(detail::bytes_at(bytes.data(), bytes.size()))); });
           })
      .def("pause", [](SessionHandle& self) { self.tell([](auto& session) { return session.pause(); }); })
      .def("swap_adapters", [](SessionHandle& self, const std::string& path) {
        self.tell([&](auto& session) { return session.swap_adapters(path); });
      });
}

void add_generator(py::module_& module) {
  py::class_<TokenizerHandle, std::shared_ptr<TokenizerHandle>>(module, "Tokenizer")
      .def("size",
           [](TokenizerHandle& self) {
             return self.ask([](auto& tokenizer) -> Result<std::size_t> { return tokenizer.size(); });
           })
      .def("encode", encode)
      .def("decode", decode)
      .def("find",
           [](TokenizerHandle& self, const std::string& token) {
             return self.ask([&](auto& tokenizer) -> Result<std::int32_t> { return tokenizer.find(token); });
           })
      .def("chat",
           [](TokenizerHandle& self, const std::vector<std::pair<std::string, std::string>>& messages,
              const Tokenizer::ChatOptions& options) {
             return self.ask([&](auto& t) { return t.chat(conversation(messages), options); });
           })
      .def("chat_text", [](TokenizerHandle& self, const std::vector<std::pair<std::string, std::string>>& messages,
                           const Tokenizer::ChatOptions& options) {
        return py::bytes(self.ask([&](auto& t) { return t.chat_text(conversation(messages), options); }));
      });
  py::class_<Tokenizer::ChatOptions>(module, "ChatOptions").def(py::init(&chat_options));
  py::class_<EmbedderHandle, std::shared_ptr<EmbedderHandle>>(module, "Embedder")
      .def("embed", embed<std::vector<std::string>>)
      .def("embed_tokens", embed<std::vector<std::vector<std::int32_t>>>)
      .def("width",
           [](EmbedderHandle& self) {
             return self.ask([](auto& embedder) -> Result<std::size_t> { return embedder.width(); });
           })
      .def("length",
           [](EmbedderHandle& self) {
             return self.ask([](auto& embedder) -> Result<std::size_t> { return embedder.length(); });
           })
      .def("memory", [](EmbedderHandle& self) { return self.ask([](auto& embedder) { return embedder.memory(); }); });
  py::class_<ImportanceHandle, std::shared_ptr<ImportanceHandle>>(module, "Importance")
      .def("add",
           [](ImportanceHandle& self, const std::string& text) {
             return self.ask([&](auto& importance) { return importance.add(text); });
           })
      .def("add_tokens",
           [](ImportanceHandle& self, const std::vector<std::int32_t>& tokens) {
             return self.ask([&](auto& importance) { return importance.add(std::span<const std::int32_t>(tokens)); });
           })
      .def("memory", [](ImportanceHandle& self) { return self.ask([](auto& i) { return i.memory(); }); })
      .def("step", [](ImportanceHandle& self) { return self.ask([](auto& importance) { return importance.step(); }); })
      .def("matrices", importance_matrices)
      .def("info", importance_info);
  py::class_<GeneratorHandle, std::shared_ptr<GeneratorHandle>>(module, "Generator")
      .def("generate", generate<std::string>)
      .def("generate_tokens", generate<std::vector<std::int32_t>>)
      .def("generate_many", generate_many)
      .def("last", last)
      .def("memory", [](GeneratorHandle& self) { return self.ask([](auto& generator) { return generator.memory(); }); })
      .def("resume", [](GeneratorHandle& self) { self.tell([](auto& generator) { return generator.resume(); }); })
      .def("swap_adapters_bytes",
           [](GeneratorHandle& self, const py::bytes& file) {
             const std::string_view bytes = file;
             self.tell(
                 [&](auto& g) { return g.swap_adapters(Source::copy(detail::bytes_at(bytes.data(), bytes.size()))); });
           })
      .def("pause", [](GeneratorHandle& self) { self.tell([](auto& generator) { return generator.pause(); }); })
      .def("swap_adapters", [](GeneratorHandle& self, const std::string& path) {
        self.tell([&](auto& generator) { return generator.swap_adapters(path); });
      });
}

}  // namespace graft::python
