// What the native methods share: handles with their context, strings, options, arrays, exceptions. After a helper says
// false or null, a Java exception is pending and the method returns.
#pragma once

#include <jni.h>

#include <cstdint>
#include <deque>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <vector>

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
  const char* text(const char* name);                       ///< null for null; valid as long as this object
  double real(const char* name);                            ///< of a double
  std::span<const double> reals(const char* name);          ///< of a double[]; none for null; valid as a text
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
  std::deque<std::vector<double>> numbers_;
  bool ok_;
};

/// Options or infos of the C ABI, all zero but the size.
template <typename Struct>
Struct sized() {
  Struct s{};
  s.struct_size = sizeof s;
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
jobject new_generated(JNIEnv* env, const graft_generated& generated, jstring text, jintArray tokens);
jobject new_forecast(JNIEnv* env, const graft_forecast& forecast);

}  // namespace graft::jni
