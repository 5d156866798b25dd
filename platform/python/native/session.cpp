// Sessions, generators and tokenizers.
#include <pybind11/stl.h>

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

/// What the last text was: tokens, why it ended (a number), costs, and its scores where they were asked for.
py::dict last(GeneratorHandle& self) {
  const Generated found = self.ask([](auto& generator) { return generator.last(); });
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

void resize(SessionHandle& self, const std::map<std::string, std::int64_t>& sizes) {
  std::vector<Binding> bindings;
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
  py::class_<GeneratorHandle, std::shared_ptr<GeneratorHandle>>(module, "Generator")
      .def("generate", generate<std::string>)
      .def("generate_tokens", generate<std::vector<std::int32_t>>)
      .def("last", last)
      .def("memory", [](GeneratorHandle& self) { return self.ask([](auto& generator) { return generator.memory(); }); })
      .def("pause", [](GeneratorHandle& self) { self.tell([](auto& generator) { return generator.pause(); }); })
      .def("swap_adapters", [](GeneratorHandle& self, const std::string& path) {
        self.tell([&](auto& generator) { return generator.swap_adapters(path); });
      });
}

}  // namespace graft::python
