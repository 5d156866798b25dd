// Structs as bytes, on their way from Java (In) and to it (Out): each number takes eight bytes, a text its length, its
// UTF-8 and a zero, a list its length and its elements. All begins at a multiple of eight, so that arrays are read in
// place.
#pragma once

#include <cstring>
#include <memory>
#include <type_traits>

#include "platform/android/jni/support.h"

namespace graft::jni {

/// What ai.graft.Out wrote. Pointers that it gives are valid as long as this object.
class In {
 public:
  In(JNIEnv* env, jbyteArray java);
  bool is_null() const { return null_; }
  template <typename T>
  T number() {
    const auto value = static_cast<T>(static_cast<std::int64_t>(words_[at_]));
    ++at_;
    return value;
  }
  double real() {
    double value = 0;
    std::memcpy(&value, &words_[at_++], sizeof value);
    return value;
  }
  /// Null for null; *bytes becomes its length.
  const char* text(std::size_t* bytes = nullptr) {
    const auto length = number<std::int64_t>();
    if (bytes != nullptr) *bytes = length < 0 ? 0 : static_cast<std::size_t>(length);
    return length < 0 ? nullptr : place<char>(static_cast<std::size_t>(length) + 1);
  }
  template <typename Count>
  const char* const* texts(Count& count) {
    const char** out = lengthened<const char*>(count);
    for (Count i = 0; i < count; ++i) out[i] = text();
    return out;
  }
  /// Of numbers, in place; null where there are none.
  template <typename T, typename Count>
  const T* array(Count& count) {
    const auto length = number<std::int64_t>();
    count = static_cast<Count>(length < 0 ? 0 : length);
    return count == 0 ? nullptr : place<T>(sizeof(T) * count);
  }
  /// Into an array of a struct, as many as it holds.
  template <typename T, std::size_t most, typename Count>
  void fixed(T (&out)[most], Count& count) {
    const T* values = array<T>(count);
    for (Count i = 0; i < count && i < most; ++i) out[i] = values[i];
  }
  template <typename T, typename Count>
  T* list(Count& count) {
    T* out = lengthened<T>(count);
    for (Count i = 0; i < count; ++i) read(*this, out[i] = sized<T>());
    return out;
  }
  template <typename T, typename Count>
  T* const* handles(Count& count) {
    T** out = lengthened<T*>(count);
    for (Count i = 0; i < count; ++i) out[i] = handle<T>();
    return out;
  }
  template <typename T>
  T* handle() {
    return handle_of<T>(number<jlong>());
  }
  /// Null where Java has none.
  template <typename T>
  T* option() {
    if (number<int>() == 0) return nullptr;
    T* out = made<T>(1);
    read(*this, *out = sized<T>());
    return out;
  }

 private:
  template <typename T>
  const T* place(std::size_t bytes) {
    const auto* out = reinterpret_cast<const T*>(&words_[at_]);
    at_ += (bytes + 7) / 8;
    return out;
  }
  template <typename T>
  T* made(std::size_t count) {
    auto memory = std::make_shared<std::vector<T>>(count);
    kept_.push_back(memory);
    return memory->data();
  }
  /// Memory for as many as come next; null where there are none.
  template <typename T, typename Count>
  T* lengthened(Count& count) {
    count = number<Count>();
    return count == 0 ? nullptr : made<T>(count);
  }

  std::vector<std::uint64_t> words_;
  std::vector<std::shared_ptr<void>> kept_;
  std::size_t at_ = 0;
  bool null_;
};

/// The options in `in`; null for null.
template <typename T>
T* options_of(In& in) {
  return in.is_null() ? nullptr : in.option<T>();
}

/// What ai.graft.In reads.
class Out {
 public:
  template <typename T>
  void number(T value) {
    const auto wide = static_cast<std::int64_t>(value);
    add(&wide, sizeof wide);
  }
  void real(double value) { add(&value, sizeof value); }
  void text(const char* text) { this->text(text, text == nullptr ? 0 : std::strlen(text)); }
  void text(const char* text, std::size_t bytes) {
    number(text == nullptr ? std::int64_t{-1} : static_cast<std::int64_t>(bytes));
    if (text != nullptr) add(text, bytes);
  }
  /// For View of Java: graft's own memory.
  void address(const void* data, std::size_t bytes) {
    number(reinterpret_cast<std::intptr_t>(data));
    number(bytes);
  }
  /// Null is none.
  template <typename T>
  void array(const T* values, std::size_t count) {
    if (values == nullptr) count = 0;
    number(count);
    if (count != 0) add(values, sizeof(T) * count);
  }
  template <typename T>
  void list(const T* values, std::size_t count) {
    if (values == nullptr) count = 0;
    number(count);
    for (std::size_t i = 0; i < count; ++i) write(*this, values[i]);
  }
  jbyteArray java(JNIEnv* env) const { return java_bytes(env, data_.data(), data_.size()); }

 private:
  void add(const void* data, std::size_t bytes) {
    if (data_.capacity() < kRoom) data_.reserve(kRoom);
    data_.append(static_cast<const char*>(data), bytes);
    data_.append((8 - bytes % 8) % 8, 0);
  }

  static constexpr std::size_t kRoom = 256;
  std::string data_;
};

}  // namespace graft::jni
