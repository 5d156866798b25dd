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
py::bytes generate(GeneratorHandle& self, const Prompt& prompt, GenerateOptions options, const py::object& on_text) {
  std::optional<py::error_already_set> raised;
  // Also without a callback: Ctrl-C ends the text.
  options.on_text = [&](std::string_view piece) {
    const py::gil_scoped_acquire acquired;
    try {
      if (PyErr_CheckSignals() != 0) throw py::error_already_set();
      return on_text.is_none() || !on_text(py::bytes(piece.data(), piece.size())).is(py::bool_(false));
    } catch (py::error_already_set& error) {
      raised.emplace(std::move(error));
      return false;
    }
  };
  const auto context = self.context();
  auto text = context->call([&] { return text_of(*self, prompt, options); });
  if (raised) throw std::move(*raised);
  return py::bytes(value_of(std::move(text)));
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

/// (tokens of a chunk, chunks that were computed)
py::tuple importance_info(ImportanceHandle& self) {
  const auto info = self.ask([](auto& importance) { return importance.info(); });
  return py::make_tuple(info.context, info.chunks);
}

void resize(SessionHandle& self, const std::map<std::string, std::int64_t>& sizes) {
  std::vector<Binding> bindings;
  bindings.reserve(sizes.size());
  for (const auto& [name, size] : sizes) bindings.push_back({name, size});
  self.tell([&](auto& session) { return session.resize(bindings); });
}

py::bytes decode(TokenizerHandle& self, const std::vector<std::int32_t>& tokens, bool spell_special) {
  return py::bytes(
      self.ask([&](auto& tokenizer) { return tokenizer.decode(tokens, {.spell_special = spell_special}); }));
}

std::vector<std::int32_t> encode(TokenizerHandle& self, const std::string& text, bool bare, bool parse_special) {
  return self.ask(
      [&](auto& tokenizer) { return tokenizer.encode(text, {.bare = bare, .parse_special = parse_special}); });
}

}  // namespace

void add_session(py::module_& module) {
  py::class_<SessionHandle, std::shared_ptr<SessionHandle>>(module, "Session")
      .def("set_input", set_input)
      .def("run", [](SessionHandle& self) { self.tell([](auto& session) { return session.run(); }); })
      .def("output", output)
      .def("memory", [](SessionHandle& self) { return self.ask([](auto& session) { return session.memory(); }); })
      .def("resize", resize)
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
      .def("decode", decode);
  py::class_<EmbedderHandle, std::shared_ptr<EmbedderHandle>>(module, "Embedder")
      .def("embed", embed<std::vector<std::string>>)
      .def("embed_tokens", embed<std::vector<std::vector<std::int32_t>>>)
      .def("width",
           [](EmbedderHandle& self) {
             return self.ask([](auto& embedder) -> Result<std::size_t> { return embedder.width(); });
           })
      .def("memory", [](EmbedderHandle& self) { return self.ask([](auto& embedder) { return embedder.memory(); }); });
  py::class_<ImportanceHandle, std::shared_ptr<ImportanceHandle>>(module, "Importance")
      .def("add",
           [](ImportanceHandle& self, const std::string& text) {
             return self.ask([&](auto& importance) { return importance.add(text); });
           })
      .def("step", [](ImportanceHandle& self) { return self.ask([](auto& importance) { return importance.step(); }); })
      .def("matrices", importance_matrices)
      .def("info", importance_info);
  py::class_<GeneratorHandle, std::shared_ptr<GeneratorHandle>>(module, "Generator")
      .def("generate", generate<std::string>)
      .def("generate_tokens", generate<std::vector<std::int32_t>>)
      .def("generate_many", generate_many)
      .def("last", last)
      .def("memory", [](GeneratorHandle& self) { return self.ask([](auto& generator) { return generator.memory(); }); })
      .def("pause", [](GeneratorHandle& self) { self.tell([](auto& generator) { return generator.pause(); }); })
      .def("swap_adapters", [](GeneratorHandle& self, const std::string& path) {
        self.tell([&](auto& generator) { return generator.swap_adapters(path); });
      });
}

}  // namespace graft::python
