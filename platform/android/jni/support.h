// What the native methods share: handles with their context, strings, options, arrays, exceptions. After a helper says
// false or null, a Java exception is pending and the method returns.
#pragma once

#include <jni.h>

#include <cstdint>
#include <deque>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graft/defaults.hpp"
#include "graft/graft.h"

#define GRAFT_JNI(Type, name) extern "C" JNIEXPORT Type JNICALL Java_ai_graft_Jni_##name

namespace graft::jni {

/// What a jlong of Java points to: a handle, and the context that has the sentence of a failure.
template <typename T>
struct Held {
  graft_context* context = nullptr;
  T* handle = nullptr;
};

template <typename T>
Held<T>& held(jlong pointer) {
  return *reinterpret_cast<Held<T>*>(pointer);  // NOLINT(performance-no-int-to-ptr): what hold() gave
}

template <typename T>
jlong hold(graft_context* context, T* handle) {
  return reinterpret_cast<jlong>(new Held<T>{context, handle});
}

/// Throws a GraftException with the sentence.
void throw_status(JNIEnv* env, graft_status status, const std::string& sentence);
/// False after it threw the context's sentence.
bool succeeded(JNIEnv* env, const graft_context* context, graft_status status);

/// `body`'s result; where there is no memory for a string or a list, a GraftException and nothing.
template <typename Body>
auto guarded(JNIEnv* env, Body&& body) -> decltype(body()) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    throw_status(env, GRAFT_OUT_OF_MEMORY, "Out of memory.");
    return decltype(body())();
  }
}

/// Java's text from valid UTF-8.
jstring java_text(JNIEnv* env, std::string_view text);

/// UTF-8 of Java's text. Half a surrogate pair becomes U+FFFD; a zero, which would end the text early, is refused.
class Text {
 public:
  Text(JNIEnv* env, jstring text);
  bool ok() const { return ok_; }
  const char* get() const { return null_ ? nullptr : text_.c_str(); }  ///< null for null

 private:
  std::string text_;
  bool null_ = false;
  bool ok_ = true;
};

/// UTF-8 of a String[].
class Texts {
 public:
  Texts(JNIEnv* env, jobjectArray texts);
  bool ok() const { return ok_; }
  const char* const* data() const { return pointers_.data(); }
  std::size_t size() const { return pointers_.size(); }

 private:
  std::deque<Text> texts_;
  std::vector<const char*> pointers_;
  bool ok_ = true;
};

/// Sizes of named dimensions.
class Bindings {
 public:
  Bindings(JNIEnv* env, jobjectArray names, jlongArray sizes);
  bool ok() const { return names_.ok(); }
  const graft_binding* data() const { return bindings_.data(); }
  std::size_t size() const { return bindings_.size(); }

 private:
  Texts names_;
  std::vector<graft_binding> bindings_;
};

/// The public fields of an options object, by name. After a failure all getters give zero; ok() says so at the end.
class Fields {
 public:
  Fields(JNIEnv* env, jobject object);
  bool ok() const { return ok_; }
  const char* text(const char* name);                    ///< null for null; valid as long as this object
  double real(const char* name);                         ///< of a double
  std::span<const double> reals(const char* name);       ///< of a double[]; none for null; valid as a text
  std::span<const std::int32_t> ints(const char* name);  ///< of an int[], the same
  const Texts& texts(const char* name);                  ///< of a String[], which is not null; valid as a text
  template <typename T>
  T* handle(const char* name);                              ///< of a long: what hold() gave, or null for 0
  int flag(const char* name);                               ///< of a boolean
  std::uint32_t count(const char* name);                    ///< of an int, which must not be negative
  std::uint64_t number(const char* name);                   ///< of a long, which must not be negative
  std::uint32_t bits(const char* name);                     ///< of an int, any
  std::uint64_t bits64(const char* name);                   ///< of a long, any
  jobject object(const char* name, const char* signature);  ///< not null
  /// The constant of an enum, whose order is that of the C enum.
  template <typename Enum>
  Enum choice(const char* name, const char* signature) {
    return static_cast<Enum>(ordinal(name, signature));
  }

 private:
  jfieldID field(const char* name, const char* signature);
  int ordinal(const char* name, const char* signature);
  void refuse(const char* name, long long value);

  JNIEnv* env_;
  jobject object_;
  jclass class_ = nullptr;
  std::deque<Text> texts_;
  std::deque<Texts> lists_;
  std::deque<std::vector<double>> numbers_;
  std::deque<std::vector<std::int32_t>> ints_;
  bool ok_;
};

template <typename T>
T* Fields::handle(const char* name) {
  const auto pointer = static_cast<jlong>(bits64(name));
  return pointer == 0 ? nullptr : held<T>(pointer).handle;
}

/// What a struct holds, for a constructor of Java that takes an ai.graft.Record: numbers, fractions and texts, of each
/// kind in the order in which they were added.
class Record {
 public:
  explicit Record(JNIEnv* env) : env_(env) {}
  template <typename... Numbers>
  Record& numbers(Numbers... values) {
    (numbers_.push_back(static_cast<jlong>(values)), ...);
    return *this;
  }
  template <typename... Reals>
  Record& reals(Reals... values) {
    (reals_.push_back(static_cast<jdouble>(values)), ...);
    return *this;
  }
  template <typename... Names>
  Record& texts(Names... values) {
    (texts_.push_back(values == nullptr ? std::optional<std::string>() : std::string(values)), ...);
    return *this;
  }
  /// Null after a failure.
  jobject java() const;

 private:
  JNIEnv* env_;
  std::vector<jlong> numbers_;
  std::vector<jdouble> reals_;
  std::vector<std::optional<std::string>> texts_;
};

/// Records of a list, for as long as next(record) says that there is one.
template <typename Next>
jobjectArray java_records(JNIEnv* env, Next next);
/// Java's from a list of them.
jobjectArray java_list(JNIEnv* env, const std::vector<Record>& records);

template <typename Next>
jobjectArray java_records(JNIEnv* env, Next next) {
  std::vector<Record> records;
  for (Record one(env); next(records.size(), one); one = Record(env)) records.push_back(std::move(one));
  return env->ExceptionCheck() == JNI_TRUE ? nullptr : java_list(env, records);
}

jintArray java_ints(JNIEnv* env, const std::int32_t* values, std::size_t count);
std::vector<std::int32_t> ints_of(JNIEnv* env, jintArray java);
jfloatArray java_floats(JNIEnv* env, const float* values, std::size_t count);
jlongArray java_longs(JNIEnv* env, const std::uint64_t* values, std::size_t count);
jdoubleArray java_doubles(JNIEnv* env, const double* values, std::size_t count);
jbyteArray java_bytes(JNIEnv* env, const void* data, std::size_t bytes);

/// A struct of the C interface with its size, and with its defaults if it has any.
template <typename Struct>
Struct sized() {
  Struct s{};
  s.struct_size = sizeof s;
  if constexpr (requires { graft_init(&s); }) graft_init(&s);
  return s;
}

/// What ai.graft.Block says, for the length of a call: direct buffers in place, arrays as the virtual machine gives
/// them.
class Blocks {
 public:
  explicit Blocks(JNIEnv* env) : env_(env) {}
  ~Blocks();
  Blocks(const Blocks&) = delete;
  Blocks& operator=(const Blocks&) = delete;
  bool add(jobject block);
  bool add_all(jobjectArray blocks);
  std::size_t size() const { return data_.size(); }
  const void* const* data() const { return data_.data(); }
  std::size_t bytes(std::size_t i) const { return bytes_[i]; }

 private:
  struct Pinned {
    jarray array;
    void* elements;
    bool floats;
  };
  JNIEnv* env_;
  std::vector<Pinned> pinned_;
  std::vector<const void*> data_;
  std::vector<std::size_t> bytes_;
};

/// A Java array of the bytes by class, in the order of graft_memory, if the call succeeded.
template <typename Handle>
jlongArray memory_of(JNIEnv* env, const Held<Handle>& of, graft_status (*ask)(const Handle*, graft_memory*)) {
  auto memory = sized<graft_memory>();
  if (!succeeded(env, of.context, ask(of.handle, &memory))) return nullptr;
  const std::uint64_t values[] = {memory.weights,   memory.parameters,  memory.gradients,
                                  memory.optimizer, memory.activations, memory.workspace,
                                  memory.staging,   memory.step_state,  memory.total};
  jlongArray out = env->NewLongArray(9);
  if (out != nullptr) env->SetLongArrayRegion(out, 0, 9, reinterpret_cast<const jlong*>(values));
  return out;
}

/// For a method that takes a text, which may be null, and gives nothing: call(handle, text).
template <typename Handle, typename Call>
void with_text(JNIEnv* env, jlong pointer, jstring java, Call call) {
  guarded(env, [&] {
    const Text text(env, java);
    if (!text.ok()) return;
    const auto& of = held<Handle>(pointer);
    succeeded(env, of.context, call(of.handle, text.get()));
  });
}

/// For a method that takes a file's bytes from an ai.graft.Block: call(handle, source), which copies them.
template <typename Handle, typename Call>
void with_memory(JNIEnv* env, const Held<Handle>& of, jobject block, Call call) {
  guarded(env, [&] {
    Blocks blocks(env);
    if (!blocks.add(block)) return;
    auto source = sized<graft_source>();
    source.kind = GRAFT_SOURCE_MEMORY;
    source.data = blocks.data()[0];
    source.bytes = blocks.bytes(0);
    source.copy = 1;  // borrowed memory that the app changes later would be read beyond its checks
    succeeded(env, of.context, call(of.handle, &source));
  });
}

/// An ai.graft.TensorInfo. `dimensions`: names of what is -1, or null where all dimensions are bound.
jobject java_info(JNIEnv* env, const graft_tensor_info& info, jobjectArray dimensions);
/// An array of them, which the caller fills.
jobjectArray new_infos(JNIEnv* env, std::size_t count);
jobjectArray new_texts(JNIEnv* env, std::size_t count);
/// A direct ByteBuffer over graft's memory.
jobject java_buffer(JNIEnv* env, const void* data, std::size_t bytes);

/// How C gives named values: graft_session_output and its like.
template <typename Handle>
using AskValue = graft_status(Handle*, const char* name, const void** data, size_t* bytes, graft_tensor_info* info);

/// A direct ByteBuffer over the value of that name.
template <typename Handle, typename T>
jobject value_of(JNIEnv* env, const Held<T>& of, jstring java_name, AskValue<Handle>* ask) {
  return guarded(env, [&]() -> jobject {
    const Text name(env, java_name);
    const void* data = nullptr;
    size_t bytes = 0;
    if (!name.ok() || !succeeded(env, of.context, ask(of.handle, name.get(), &data, &bytes, nullptr))) return nullptr;
    return java_buffer(env, data, bytes);
  });
}

/// Its ai.graft.TensorInfo.
template <typename Handle, typename T>
jobject info_of(JNIEnv* env, const Held<T>& of, jstring java_name, AskValue<Handle>* ask) {
  return guarded(env, [&]() -> jobject {
    const Text name(env, java_name);
    graft_tensor_info info{};
    if (!name.ok() || !succeeded(env, of.context, ask(of.handle, name.get(), nullptr, nullptr, &info))) return nullptr;
    return java_info(env, info, nullptr);
  });
}

/// Finds the classes and members that native code names; at loading.
bool find_classes(JNIEnv* env);
/// Constructors that find_classes() found.
jobject new_metrics(JNIEnv* env, const graft_metrics& metrics);
jobject new_checkpoint(JNIEnv* env, const graft_checkpoint_info& info);
/// Null with an exception pending where there is no memory. `id`: of a text among several, else 0.
jobject new_generated(JNIEnv* env, const graft_generated& generated, std::uint64_t id);
jobject new_forecast(JNIEnv* env, const graft_forecast& forecast);

}  // namespace graft::jni
