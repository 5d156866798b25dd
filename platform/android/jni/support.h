// What the native methods share: handles with their context, strings, memory, exceptions. After a helper says false or
// null, a Java exception is pending and the method returns.
#pragma once

#include <jni.h>

#include <cstdint>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "graft/cache.h"
#include "graft/defaults.hpp"
#include "graft/graft.h"

#define GRAFT_JNI(Type, name) extern "C" JNIEXPORT Type JNICALL Java_ai_graft_Jni_##name

namespace graft::jni {

/// What a jlong of Java points to: a handle, and the context that has the sentence of a failure.
struct Held {
  graft_context* context = nullptr;
  void* handle = nullptr;
};

template <typename T>
jlong hold(graft_context* context, T* handle) {
  return reinterpret_cast<jlong>(new Held{context, handle});
}

inline Held* held(jlong pointer) {
  return reinterpret_cast<Held*>(pointer);  // NOLINT(performance-no-int-to-ptr): what hold() gave
}

/// Null for 0.
template <typename T>
T* handle_of(jlong pointer) {
  return pointer == 0 ? nullptr : static_cast<T*>(held(pointer)->handle);
}

inline graft_context* context_of(jlong pointer) { return held(pointer)->context; }

/// After the handle was destroyed.
inline void release(JNIEnv*, jlong pointer) { delete held(pointer); }

/// Throws a GraftException with the sentence.
void throw_status(JNIEnv* env, graft_status status, const std::string& sentence);
/// False after it threw the context's sentence.
bool succeeded(JNIEnv* env, const graft_context* context, graft_status status);
/// False after it threw.
bool not_negative(JNIEnv* env, const char* what, jlong value);

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

/// A struct of the C interface with its size, and with its defaults if it has any.
template <typename Struct>
Struct sized() {
  Struct s{};
  if constexpr (requires { s.struct_size; }) s.struct_size = sizeof s;
  if constexpr (requires { graft_init(&s); }) graft_init(&s);
  return s;
}

/// Java's text from UTF-8; null for null. What is no UTF-8 becomes U+FFFD.
jstring java_text(JNIEnv* env, std::string_view text);
inline jstring java_text(JNIEnv* env, const char* text) {
  return text == nullptr ? nullptr : java_text(env, std::string_view(text));
}

/// UTF-8 of Java's text. Half a surrogate pair becomes U+FFFD; a zero, which would end the text early, is refused.
class Text {
 public:
  Text(JNIEnv* env, jstring text);
  bool ok() const { return ok_; }
  const char* get() const { return null_ ? nullptr : text_.c_str(); }  ///< null for null
  std::size_t size() const { return text_.size(); }

 private:
  std::string text_;
  bool null_ = false;
  bool ok_ = true;
};

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

/// The bytes of a direct ByteBuffer, which graft fills; none for null.
class Room {
 public:
  Room(JNIEnv* env, jobject buffer)
      : data_(buffer == nullptr ? nullptr : env->GetDirectBufferAddress(buffer)),
        bytes_(buffer == nullptr ? 0 : static_cast<std::size_t>(env->GetDirectBufferCapacity(buffer))) {}
  template <typename T>
  T* data() const {
    return static_cast<T*>(data_);
  }
  std::size_t bytes() const { return bytes_; }

 private:
  void* data_;
  std::size_t bytes_;
};

/// A file in memory, which graft copies, or a part of an open one where `memory` is null.
class SourceOf {
 public:
  SourceOf(JNIEnv* env, jobject memory, jint descriptor, jlong offset, jlong bytes);
  bool ok() const { return ok_; }
  const graft_source* get() const { return &source_; }

 private:
  Blocks blocks_;
  graft_source source_ = sized<graft_source>();
  bool ok_ = true;
};

/// A direct ByteBuffer over graft's memory, of at most 2 GiB.
jobject java_buffer(JNIEnv* env, const void* data, std::size_t bytes);
jbyteArray java_bytes(JNIEnv* env, const void* data, std::size_t bytes);

/// Finds the classes and members that native code names; at loading.
bool find_classes(JNIEnv* env);

}  // namespace graft::jni
