#include "runtime/c_api/c_cipher.h"

#include "runtime/c_api/c_handles.h"

namespace graft::c_api {
namespace {

// The app's callbacks.
class CallbackCipher final : public checkpoint::Cipher {
 public:
  explicit CallbackCipher(const graft_cipher& cipher) : cipher_(cipher) {}
  std::size_t overhead() const override { return cipher_.overhead; }
  Status seal(std::span<const std::byte> associated, std::span<const std::byte> plain,
              std::span<std::byte> out) override {
    const CallbackScope in_callback;
    if (cipher_.seal(cipher_.user, associated.data(), associated.size(), plain.data(), plain.size(), out.data()) == 0) {
      return ok_status();
    }
    return error(Code::internal, "The cipher failed to seal ", plain.size(), " bytes.");
  }
  Status open(std::span<const std::byte> associated, std::span<const std::byte> sealed,
              std::span<std::byte> out) override {
    const CallbackScope in_callback;
    if (cipher_.open(cipher_.user, associated.data(), associated.size(), sealed.data(), sealed.size(), out.data()) ==
        0) {
      return ok_status();
    }
    return corrupt("The cipher did not open ", sealed.size(), " bytes: another key sealed them, or they are damaged.");
  }

 private:
  graft_cipher cipher_;
};

}  // namespace

Result<std::unique_ptr<checkpoint::Cipher>> read_cipher(const graft_cipher* given) {
  if (given == nullptr) return std::unique_ptr<checkpoint::Cipher>();
  GRAFT_TRY_ASSIGN(const graft_cipher cipher, read_options(given, "graft_cipher"));
  if (cipher.seal == nullptr || cipher.open == nullptr) return invalid("A cipher needs both seal and open.");
  return std::unique_ptr<checkpoint::Cipher>(std::make_unique<CallbackCipher>(cipher));
}

}  // namespace graft::c_api
